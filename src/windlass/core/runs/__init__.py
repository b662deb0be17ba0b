"""The rules of a run: its states, events, commands and the decision function."""
