"""The life of nodes: validation, creation, update, power, loss, maintenance."""
