"""Organisations: their keys, plans and audit log."""
