"""The directory of a run: status, commands, fences and processes."""
