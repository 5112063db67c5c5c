"""Run a job on simulated slices, disturb it at chosen moments, and judge whether it comes back."""
