"""Executions of the in-process scheduler: how they run, are retried, wrapped, limited and kept."""
