"""Messages about a job to the targets of its `notify`: what is due, its words, its delivery."""
