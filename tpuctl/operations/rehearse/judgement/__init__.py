"""Pure rules: which moments a job has, what a run shows, and which defect explains it."""
