"""Single programs for a worker: chip holders, the switch, attached commands."""
