"""How the workers of a run agree on the step that they resume from."""
