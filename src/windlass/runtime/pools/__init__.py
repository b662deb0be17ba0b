"""Pools: execute steps that run elsewhere, as jobs that a launcher starts.

A pool is a worker whose id, `pool:NAME`, belongs to the pool instead of to a process. Of the processes that are
configured with a pool, one at a time holds its leader term and is that worker. If it ends, the next one takes over the
leases with the id, and finds what was started by the names of the launches, which contain the fence. No launched job
ends because its worker did.
"""
