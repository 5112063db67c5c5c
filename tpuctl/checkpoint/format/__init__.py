"""The layout of a checkpoint directory and the schema of its COMMIT objects."""
