"""The state of the simulated cloud and what is read from it."""
