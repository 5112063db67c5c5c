"""What slices cost: when they were billed, and at which price."""
