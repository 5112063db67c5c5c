"""The REST front door of the Cloud TPU API."""
