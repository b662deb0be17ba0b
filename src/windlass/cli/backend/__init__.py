"""The backend of commands: an interface with two implementations, on the database and through a server."""
