"""What all slices of a context cost, from what anybody has seen of them."""
