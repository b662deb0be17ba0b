"""The use cases: one function = one transaction = load, decide, save. Rules are in core, SQL in store."""
