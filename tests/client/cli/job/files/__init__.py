"""Job files, before there is a job."""
