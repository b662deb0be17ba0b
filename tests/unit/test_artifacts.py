"""Names, references and object keys of artifacts, and the paths that refer to them."""

from typing import Any
from uuid import UUID

import pytest

from windlass.core.artifacts import Reference, check_media_type, check_name, object_key, read_reference
from windlass.core.expressions.scope import Facts, TaskFacts, find, read_path
from windlass.errors import Invalid, InvalidExpression

RUN = UUID(int=7)
REFERENCE = Reference(RUN, "make", 2, "report.csv")


def test_a_reference_round_trips_through_its_string() -> None:
    assert str(REFERENCE) == f"artifact://{RUN}/make/2/report.csv"
    assert read_reference(str(REFERENCE)) == REFERENCE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "report.csv",
        f"artifact://{RUN}/make/2",
        f"artifact://{RUN}/make/-1/a",
        f"artifact://{RUN}/make/2/../a",
        f"artifact://{RUN}/../2/a",
        f"artifact://{'-' * 36}/make/2/a",
        f"file://{RUN}/make/2/a",
        f"artifact://{RUN}/make/2/.a",
    ],
)
def test_an_invalid_reference_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a reference such as"):
        read_reference(text)


def test_each_attempt_and_claim_has_its_own_object_key() -> None:
    assert object_key(REFERENCE, 3, 5) == f"runs/{RUN}/make/2/3-5/artifacts/report.csv"


@pytest.mark.parametrize("name", ["a", "A-1_b.tar.gz", "_", "x" * 200])
def test_valid_names_are_accepted(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "a/b", "a\\b", "a b", "a\n", "ä", "x" * 201, 7])
def test_invalid_names_are_refused(name: Any) -> None:
    with pytest.raises(Invalid, match="use 1 to 200 letters") as refusal:
        check_name(name)
    assert refusal.value.field == "name"


@pytest.mark.parametrize("text", ["text/csv", "Text/Plain; charset=UTF-8", "application/vnd.x+json"])
def test_valid_media_types_are_accepted(text: str) -> None:
    assert check_media_type(text) == text.lower()


@pytest.mark.parametrize("text", ["", "csv", "text/", "text/csv\r\nx: y", "text/html; a=b", 7])
def test_invalid_media_types_are_refused(text: Any) -> None:
    with pytest.raises(Invalid, match="it must be one such as text/csv"):
        check_media_type(text)


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("tasks.make.artifacts.report", ("report",)),
        ("tasks.make.artifacts.report.csv", ("report.csv",)),
        ("tasks.make.artifacts['report.csv']", ("report.csv",)),
        ("tasks.make.artifacts.report.csv[1]", ("report.csv", 1)),
    ],
)
def test_a_path_may_name_an_artifact_whose_name_has_dots(path: str, rest: Any) -> None:
    assert read_path(path, 0)[0].rest == rest


@pytest.mark.parametrize("path", ["tasks.make.artifacts", "tasks.make.artifacts[0]"])
def test_a_path_must_name_an_artifact(path: str) -> None:
    with pytest.raises(InvalidExpression, match="must be followed by the name of an artifact"):
        read_path(path, 0)


def test_the_value_of_an_artifact_path_is_its_reference() -> None:
    facts = Facts(tasks={"make": TaskFacts(status="success", artifacts={"report.csv": str(REFERENCE)})})
    assert find(facts, read_path("tasks.make.artifacts.report.csv", 0)[0]) == str(REFERENCE)
