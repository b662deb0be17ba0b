"""The types of /api/v1, each defined once: the server's responses, the client's results and the command line's output.

Frozen dataclasses of the standard library without behaviour. Times are aware datetimes (ISO 8601 with a Z on the wire),
ids are strings. A docstring below a field is its description in the OpenAPI document. The metadata of a field has its
name on the wire where that is a keyword of Python (`alias`), and the bounds of a number (`ge`, `le`).
"""
