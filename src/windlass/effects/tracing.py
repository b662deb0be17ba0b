"""Wraps handlers in OpenTelemetry spans if the program has configured a tracer provider."""

import contextlib
from typing import Any

from windlass.core.jobs.job import Claimed

try:
    from opentelemetry import trace
except ImportError:  # the `otel` extra is not installed
    trace = None  # type: ignore[assignment]  # a module or None


def tracer() -> Any | None:
    """Return a tracer, or None if no provider is configured: the API's placeholder records nothing but costs time."""
    if trace is None or type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider":
        return None
    return trace.get_tracer("windlass")


def traceparent() -> str | None:
    """Return the W3C `traceparent` header of the current span, if there is one."""
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def span(source: Any, job: Claimed) -> contextlib.AbstractContextManager[Any]:
    attributes = {
        "messaging.system": "windlass",
        "messaging.destination.name": job.queue,
        "messaging.message.id": str(job.id),
        "windlass.job.type": job.type,
        "windlass.job.attempt": job.number,
    }
    current: contextlib.AbstractContextManager[Any] = source.start_as_current_span(
        f"job {job.type}", attributes=attributes
    )
    return current
