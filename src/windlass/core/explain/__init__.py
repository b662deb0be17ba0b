"""Explanations of a run in sentences: what it did and what it waits for."""
