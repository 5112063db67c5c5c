"""What all slices of a context cost."""
