"""Runs: start, settle, sweep, control and inspect."""
