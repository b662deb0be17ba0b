"""Reads and writes workflow definitions: the declarative language."""
