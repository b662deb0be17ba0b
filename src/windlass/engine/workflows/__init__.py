"""Workflows: publish, enable, list; the cache of their stored versions."""
