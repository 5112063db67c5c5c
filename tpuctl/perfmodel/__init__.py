"""Models of what a real chip would have taken: pure functions, always labelled modelled."""
