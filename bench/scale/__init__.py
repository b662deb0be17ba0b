"""Measures Windlass with a long history and many live runs, under load for half an hour: `python -m bench.scale`."""
