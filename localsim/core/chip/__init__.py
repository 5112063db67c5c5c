"""One simulated chip: its units, memory, costs and counters."""
