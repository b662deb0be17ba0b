"""Postgres: the only room that speaks SQL and the only importer of asyncpg.

Lock order everywhere: job rows in ascending id; a statement that locks several sorts them first or skips locked ones.
"""
