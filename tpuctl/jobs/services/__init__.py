"""Services: replicas of an engine, each of them a job, and the record that says how many."""
