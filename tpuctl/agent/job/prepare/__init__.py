"""The stages before the program starts: working directory, mounts, secrets."""
