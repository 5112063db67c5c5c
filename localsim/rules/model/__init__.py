"""The values of the simulated cloud: nodes, requests, operations, names, errors."""
