"""How long a serving engine takes for a prompt and for a token, and its latency by load."""
