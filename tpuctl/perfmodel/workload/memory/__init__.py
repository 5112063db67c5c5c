"""What a device holds of a training step or a serving engine."""
