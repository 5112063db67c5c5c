"""The reverse proxy of a service: one address, and requests to replicas that answer."""
