"""The log lines of the workers of a job, live and from the bucket."""
