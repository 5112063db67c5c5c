"""The methods of the JSON API of Cloud Storage."""
