"""The Cloud TPU API on gRPC: methods, messages, views."""
