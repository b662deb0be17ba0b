"""Workflows as values: steps, their graph, and the builder that makes them."""
