"""The command line: parses arguments, calls a backend, prints."""
