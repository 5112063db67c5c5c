"""What a command decides about services: create, list, describe, update, delete, and proxy."""
