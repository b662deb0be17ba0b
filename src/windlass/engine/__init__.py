"""The use cases: one function = one transaction = load, decide, save. Rules live in core, SQL in store."""
