"""What a transfer has to do: endpoints, walks, names, filters, checksums."""
