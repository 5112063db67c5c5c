"""Who may use a bucket or an object: access controls, and the keys that sign requests."""
