"""The API at /api/v1: parse, call, render. No rules and no SQL."""
