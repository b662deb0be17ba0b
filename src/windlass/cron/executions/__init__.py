"""Executions of the in-process scheduler: how one runs, is retried, wrapped, limited and remembered."""
