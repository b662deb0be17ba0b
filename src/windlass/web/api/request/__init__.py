"""What requests of /api/v1 have in common: dependencies, bodies, paging."""
