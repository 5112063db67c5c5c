"""Values of secrets, on their way to a supervisor and to the workers."""
