"""The benchmark room: Windlass, a bare loop and its peers in turns on one server. Run `python -m bench`."""
