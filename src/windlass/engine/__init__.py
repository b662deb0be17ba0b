"""The use cases. Each is normally one transaction: load, decide, write. Rules are in `core`, SQL is in `store`."""
