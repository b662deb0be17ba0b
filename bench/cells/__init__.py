"""A prototype: runs spread over several databases ("cells"), and what a router in front of them needs."""
