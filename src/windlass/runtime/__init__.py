"""The worker, the pools and the background loops: they decide when to run use cases of the engine."""
