"""The domain rules as pure functions and values: no clock, no randomness, no I/O, standard library only."""
