"""Command steps: a process group, its environment, output and log lines."""
