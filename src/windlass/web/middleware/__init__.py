"""ASGI middleware: guard and CORS, rate limits, request ids and access log; and connections with deadlines."""
