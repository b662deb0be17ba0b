"""Prints the OpenAPI document that the SDKs of other languages are generated from: `make openapi` keeps it in sdk/.

It has the operations of the Python client only. `operationId` is the name of the operation there, `x-windlass-kind` the
kind of its response: `one` value, a `page` of a list (`x-windlass-cursor` is the parameter for the next page), a
`stream` of events, a `download`, or `none`. `x-windlass-text` names the operation that returns the same data as plain
text, with `format=text`.
"""

import json
import sys
from typing import Any

from tools import openapi
from tools.operations import CALLS, OPERATIONS
from windlass.client.descriptors import downloading, listing, streaming
from windlass.client.request import PREFIX


def document() -> str:
    shapes = json.loads(openapi.document())
    described = openapi.full_document()["paths"]
    paths: dict[str, dict[str, Any]] = {}
    for name, call in CALLS.items():
        path, method = PREFIX + call.path, call.method.lower()
        if call.query.get("format") == "text":
            paths[path][method]["x-windlass-text"] = name
            continue
        text = {key: value for key, value in described[path][method].items() if key in ("summary", "description")}
        shape = shapes["paths"][path][method]
        paths.setdefault(path, {})[method] = {"operationId": name, **_kind(name, shape), **text, **shape}
    return json.dumps({**shapes, "paths": paths}, indent=1, sort_keys=True) + "\n"


def _kind(name: str, shape: dict[str, Any]) -> dict[str, str]:
    member = OPERATIONS[name]
    if isinstance(member, listing):
        return {"x-windlass-kind": "page", "x-windlass-cursor": member.cursor}
    if isinstance(member, streaming):
        return {"x-windlass-kind": "stream"}
    if isinstance(member, downloading):
        return {"x-windlass-kind": "download"}
    has_content = any("content" in response for response in shape["responses"].values())
    return {"x-windlass-kind": "one" if has_content else "none"}


if __name__ == "__main__":
    sys.stdout.write(document())
