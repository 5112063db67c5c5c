"""A rehearsal: when a job is disturbed, what was observed, and what is concluded from it."""
