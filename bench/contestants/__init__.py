"""The contestants of `python -m bench`, a module for each. Each verb, such as `drain`, runs in its own process."""
