"""Windlass: record work first, execute it later, never lose what was recorded."""

__version__ = "0.1.0"
