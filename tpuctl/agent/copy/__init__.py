"""One stream of files in frames, and the code at both of its ends."""
