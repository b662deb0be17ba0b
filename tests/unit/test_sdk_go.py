"""The generated files of the Go SDK are committed, because `go get` needs them. They must be current."""

import json

import pytest
from tools import sdk_go

GO = sdk_go.ROOT / "go"
FILES = sdk_go.generate(json.loads((sdk_go.ROOT / "openapi.json").read_text()))


@pytest.mark.parametrize("name", FILES)
def test_the_generated_files_are_current(name: str) -> None:
    assert (GO / name).read_text() == FILES[name], "run make openapi"


def test_every_operation_has_a_method() -> None:
    paths = json.loads((sdk_go.ROOT / "openapi.json").read_text())["paths"]
    operations = [(method, path) for path, methods in paths.items() for method in methods]
    missing = [one for one in operations if f"//\t{one[0].upper()} {one[1]}\n" not in FILES["operations.go"]]
    assert operations
    assert missing == []


def test_the_sdk_needs_nothing_but_the_standard_library() -> None:
    assert "require" not in (GO / "go.mod").read_text()
    assert not (GO / "go.sum").exists()
