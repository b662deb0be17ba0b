"""A prototype of runs that are distributed over several databases ("cells"), with a router in front of them."""
