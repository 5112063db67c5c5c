"""What is known of capacity, as values."""
