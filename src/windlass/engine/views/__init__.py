"""Converts rows and snapshots to the types of the API (`windlass.schemas`), for the server and the command line."""
