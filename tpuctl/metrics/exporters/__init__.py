"""What is measured on workers, in the forms that other programs read."""
