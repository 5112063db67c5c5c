"""Pure rules: what follows from the record of a job and from what was observed."""
