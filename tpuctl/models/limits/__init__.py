"""What limits a slice or a context: how long a slice may live, and what all of them may cost."""
