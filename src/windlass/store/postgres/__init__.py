"""Connections: the pool, LISTEN/NOTIFY, outages, and checks of the server."""
