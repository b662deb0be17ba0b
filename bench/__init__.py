"""Benchmarks of Windlass, a bare loop and other engines, alternating on one server. Run `python -m bench`."""
