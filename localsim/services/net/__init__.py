"""Sockets, proxies and the request guard that the services share."""
