"""The directory of a run: status, orders, fences and processes."""
