"""Spans around handlers, in a separate program that configures OpenTelemetry: the provider is global to a process."""

import subprocess
import sys

PROGRAM = """
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from windlass import Windlass
from windlass.settings import Settings
from windlass.testing import run_until_idle

memory = InMemorySpanExporter()
if sys.argv[2] == "traced":
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace.set_tracer_provider(provider)

async def main():
    async with Windlass(sys.argv[1], settings=Settings()) as app:
        @app.job("traced.work.v1")
        async def handle():
            with trace.get_tracer("mine").start_as_current_span("inside"):
                pass
        await app.submit("traced.work.v1")
        await run_until_idle(app)

asyncio.run(main())
spans = memory.get_finished_spans()
print(json.dumps([[s.name, dict(s.attributes), s.parent is not None] for s in spans]))
"""


def run(database: str, how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, database, how], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def test_each_attempt_is_a_span_and_the_spans_of_its_handler_are_children(database: str) -> None:
    told = run(database, "traced")
    assert '["inside", {}, true]' in told
    assert '"job traced.work.v1"' in told
    assert '"windlass.job.attempt": 1' in told


async def test_without_a_configured_provider_nothing_is_traced(database: str) -> None:
    assert run(database, "plain") == "[]"
