"""Programs that fetch, receive, send and list files on a worker."""
