"""Messages about a job: who gets them, and what became of each."""
