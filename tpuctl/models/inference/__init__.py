"""What jobs with the sections `serve` and `predict` ask for, and the record of a service."""
