"""The rules: pure functions and values. No clock, no dice, no I/O, standard library only."""
