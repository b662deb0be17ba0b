"""Tests of pure code, without a database."""
