"""What the real chip would have taken: pure functions, always labelled modelled."""
