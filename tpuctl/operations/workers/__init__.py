"""Commands, copies and tunnels on the workers of a node."""
