"""Snapshots of runs, explanations of their state in sentences, and timelines."""
