"""Cloud Storage and the metadata server, as a run uses them."""
