"""Workers: turns of our own, the protocol for remote ones, and the registry."""
