"""Tokens, roles and the OAuth 2.0 endpoint."""
