"""Cloud Storage's XML API."""
