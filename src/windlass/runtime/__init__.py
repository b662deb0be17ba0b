"""The loops: when things happen. Each is options + tick() + run(); what happens is the engine's."""
