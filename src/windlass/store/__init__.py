"""Postgres: the only layer with SQL and the only importer of asyncpg.

Lock order everywhere: job rows in ascending id. A statement that locks several rows sorts them first or skips locked
ones.
"""
