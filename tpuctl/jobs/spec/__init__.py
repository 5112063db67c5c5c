"""The job file: its schema, its reader and what its fields mean."""
