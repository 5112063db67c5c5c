"""Cloud Storage over HTTP: the JSON API, and what both of its APIs share."""
