"""How a message gets to a target: HTTP, mail, a command."""
