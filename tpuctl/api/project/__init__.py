"""What Google says about a project: services, billing, permissions, accounts, networks."""
