"""The guide's pictures, made from real runs on a local cloud."""
