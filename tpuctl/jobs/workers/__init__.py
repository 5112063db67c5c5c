"""Connections to the workers of a job, and the agent that is installed on each."""
