"""Requests that nobody thought of: what the OpenAPI document allows, and what it does not, made by Schemathesis.

No 500, no status that is not documented, and every answer has the shape it is said to have. The seed is fixed: the same
requests each time.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.keys import KEYS
from tests.web.test_api_openapi import DOCUMENT, METHODS
from windlass import RunSpec, Windlass
from windlass.settings import Settings
from windlass.testing import Databases
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
PAYLOADS: dict[str, Any] = {"name": "known", "tasks": {"nap": {"sleep": "1h"}, "work": {"job": "known.work.v1"}}}
ENDLESS = ("/stream", "/logs/stream")  # they answer for as long as somebody reads
OPERATIONS = [
    (method, path)
    for path, operations in DOCUMENT["paths"].items()
    for method in operations
    if method in METHODS and not path.endswith(ENDLESS)
]
IDS = [f"{method} {path}" for method, path in OPERATIONS]


@dataclass(frozen=True)
class Served:
    """A server on a thread of its own, with something in it."""

    url: str
    known: dict[str, Any]  # path parameters that name something


@pytest.fixture(scope="module")
def served(databases: Databases) -> Iterator[Served]:
    found: list[Served] = []
    up, stop = threading.Event(), threading.Event()

    async def main() -> None:
        async with _serving(databases) as one:
            found.append(one)
            up.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        assert up.wait(60)
        yield found[0]
    finally:
        stop.set()
        thread.join()


@contextlib.asynccontextmanager
async def _serving(databases: Databases) -> AsyncIterator[Served]:
    async with databases.fresh() as url, Windlass(url, settings=Settings(master_keys=KEYS)) as app:
        await app.deploy(PAYLOADS)
        [run] = await app.start_many("known", [RunSpec(input={})])
        job = await app.submit("known.job.v1", {"a": 1})
        listener = listen("127.0.0.1", 0)
        async with serving(server.build(app, GuardOptions(host=listener.host)), listener):
            known = {"ref": "known", "run_id": str(run.id), "task": "work", "job_id": str(job), "number": 1}
            yield Served(listener.url, known | {"name": "default"})


def tried(served: Served, method: str, path: str, examples: int) -> None:
    """So many requests, good and bad; half of them about things that exist."""
    schema: Any = schemathesis.openapi.from_dict(DOCUMENT)
    operation = schema[path][method.upper()]
    session = requests.Session()

    @hypothesis.seed(20301)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(
        case=hypothesis.strategies.one_of(
            operation.as_strategy(), operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
        ),
        existing=hypothesis.strategies.booleans(),
    )
    def ask(case: Any, existing: bool) -> None:
        if existing:
            case.path_parameters = {
                name: served.known.get(name, value) for name, value in (case.path_parameters or {}).items()
            }
        if isinstance(case.query, dict) and "wait" in case.query:
            case.query["wait"] = 0
        case.call_and_validate(base_url=served.url, session=session, checks=CHECKS, timeout=20)

    with session:
        ask()


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=IDS)
def test_no_request_leads_to_an_answer_that_is_not_documented(served: Served, method: str, path: str) -> None:
    tried(served, method, path, examples=4)


@pytest.mark.soak
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=IDS)
def test_no_request_at_all(served: Served, method: str, path: str) -> None:
    tried(served, method, path, examples=200)
