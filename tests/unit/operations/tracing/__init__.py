"""The operations of traced programs."""
