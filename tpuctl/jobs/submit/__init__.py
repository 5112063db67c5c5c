"""From a job file to a record in the bucket: placement, working directory, warnings."""
