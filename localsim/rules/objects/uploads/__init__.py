"""Uploads in parts: sessions of the JSON API, multipart uploads of the XML API."""
