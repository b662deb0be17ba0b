"""Windlass with a long past and many live things, under load for half an hour. Run `python -m bench.scale`."""
