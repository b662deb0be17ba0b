"""Fixtures of the end-to-end tests."""

from tests.e2e.shop import shop

__all__ = ["shop"]
