"""How the hosts of workers are kept apart: one interface, two ways."""
