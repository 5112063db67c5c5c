"""The local context: the simulator process, its shell, bench and quickstart."""
