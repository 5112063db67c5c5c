"""State of the project: metadata and secrets."""
