"""SSH to workers: routes, keys, host keys, logins, tunnels."""
