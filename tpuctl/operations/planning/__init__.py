"""Which slice a model should train or answer on: what fits, how long it takes, what it costs."""
