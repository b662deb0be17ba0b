"""Prints the part of the OpenAPI document that the dashboard's types are generated from: `make openapi` writes it.

It has the schemas of requests and successful responses only: a changed description or example would change the document
but no type.
"""

import asyncio
import json
import sys
from typing import Any

from windlass import Windlass
from windlass.settings import Settings
from windlass.web import server
from windlass.web.server import API_PREFIX

LOGIN = "/auth/"
TWINS = f"{API_PREFIX}/workflows/{{ref}}/runs/{{run_id}}"  # second paths of runs
WORDS = frozenset({"description", "summary", "example", "examples", "tags", "title", "security", "operationId"})
NAMED = frozenset({"properties", "schemas", "paths"})  # their keys are names, which may be any of WORDS


def full_document() -> dict[str, Any]:
    return server.main_app(Windlass(settings=Settings()), asyncio.Event()).openapi()


def document() -> str:
    found = full_document()
    paths = {
        path: {method: _good(operation) for method, operation in operations.items()}
        for path, operations in found["paths"].items()
        if path.startswith((API_PREFIX, LOGIN)) and not path.startswith(TWINS)
    }
    shown = {"paths": _shapes(paths, named=True), "components": _shapes({"schemas": found["components"]["schemas"]})}
    head = {"openapi": found["openapi"], "info": {"title": "Windlass", "version": "v1"}}
    return json.dumps(head | shown, indent=1, sort_keys=True) + "\n"


def _good(operation: dict[str, Any]) -> dict[str, Any]:
    answers = {status: told for status, told in operation["responses"].items() if status < "300"}
    return operation | {"responses": answers}


def _shapes(part: Any, *, named: bool = False) -> Any:
    match part:
        case dict():
            return {
                key: _shapes(value, named=key in NAMED and not named)
                for key, value in part.items()
                if named or key not in WORDS
            }
        case list():
            return [_shapes(one) for one in part]
        case _:
            return part


if __name__ == "__main__":
    sys.stdout.write(document())
