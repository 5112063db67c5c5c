"""How long a training step takes."""
