"""The docs are complete and correct: public names, settings, metrics, links and the diagram of the lifecycle."""

import re
from pathlib import Path

import pytest

import windlass
from windlass.core.jobs.job import EDGES, JobState
from windlass.runtime.metrics import REGISTRY
from windlass.settings import VARIABLES

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


@pytest.mark.parametrize("name", windlass.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert f"`{name}" in page("reference/python.md") or f"## {name}" in page("reference/python.md")


@pytest.mark.parametrize("variable", VARIABLES)
def test_every_setting_is_in_the_reference(variable: str) -> None:
    assert f"| `{variable}` |" in page("reference/settings.md")


def test_the_reference_lists_no_setting_that_does_not_exist() -> None:
    assert set(re.findall(r"^\| `(WINDLASS_\w+)`", page("reference/settings.md"), re.MULTILINE)) == set(VARIABLES)


def test_the_lifecycle_diagram_equals_the_table_of_edges() -> None:
    lines = [f"    [*] --> {JobState.PENDING}"]
    lines += [f"    {old} --> {new} : {move}" for (old, move), new in EDGES.items()]
    assert "stateDiagram-v2\n" + "\n".join(lines) + "\n```" in page("reference/lifecycle.md")


def test_every_metric_is_in_the_reference() -> None:
    names = {metric.name for metric in REGISTRY.collect()}
    documented = set(re.findall(r"`((?:workflow|windlass)_\w+?)(?:_total)?`", page("reference/metrics.md")))
    assert names == documented


@pytest.mark.parametrize("source", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_targets_of_links_exist(source: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", source.read_text("utf-8"))  # code may look like a link: Ptr[T any](value T)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", text):
        assert (source.parent / target).exists(), f"{source.name} links to {target}"
