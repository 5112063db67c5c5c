"""What this machine knows of jobs: its supervisor, and a cache of open jobs."""
