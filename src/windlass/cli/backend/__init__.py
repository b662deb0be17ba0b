"""What commands call: an interface with two implementations, the database and a server."""
