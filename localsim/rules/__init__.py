"""State and rules of the simulated cloud; knows no wire format and no process."""
