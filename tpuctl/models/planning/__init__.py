"""What a person asks of a plan, before any slice of it is known."""
