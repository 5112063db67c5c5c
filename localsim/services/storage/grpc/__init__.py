"""Cloud Storage over gRPC: google.storage.v2 and google.storage.control.v2, on the same store."""
