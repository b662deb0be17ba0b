"""Decides when things happen: the worker and the background loops. What happens is decided in the engine."""
