"""What a simulated worker finds on its own addresses: metadata, chip metrics."""
