"""The Cloud TPU API: messages, calls, retries, errors."""
