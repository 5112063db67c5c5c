"""The APIs around Cloud TPU by which a project is set up: billing, policies, accounts, networks."""
