"""Pools: execute steps outside of the worker, as jobs that a launcher starts.

A pool is a worker whose id, `pool:NAME`, belongs to the pool instead of to a process. Of the processes that are
configured with a pool, one at a time holds its leader term and is that worker. If that process ends, the next one takes
over the id with its leases, and recognises the launches by their names, which contain the fence. A launched job
continues when its worker ends.
"""
