"""ASGI middleware: the guard, rate limits, slots, CORS, request ids, the access log."""
