"""The rules of a run: what happens next when something happened."""
