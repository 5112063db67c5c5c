"""What is measured on workers: samples, where they are kept, and what follows from them."""
