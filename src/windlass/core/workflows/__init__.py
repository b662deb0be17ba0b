"""Workflows as values: definitions, their steps, the graph and the payloads of steps."""
