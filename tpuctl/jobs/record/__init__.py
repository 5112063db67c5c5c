"""The record of a job in the bucket, and the text that describes its state."""
