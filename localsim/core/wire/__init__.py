"""What moves between the worker processes of a slice: who is where, links, rounds, heartbeats."""
