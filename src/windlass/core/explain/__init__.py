"""Explains in sentences what a run did and what it waits for."""
