"""Workflows as values: steps, their graph, compositions, and the builder."""
