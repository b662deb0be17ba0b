"""Workflows as SVG images."""

import re
from datetime import timedelta
from itertools import pairwise
from time import process_time
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given

from tests.unit.test_diagram_tree import ORDERS, chain, comb
from tests.unit.test_workflow import workflows
from windlass.core.definition.parser import parse
from windlass.core.svg import GAP, WIDTH, draw_svg, lay_out
from windlass.core.workflows.step import CommandAction, Edge, SleepAction, Step
from windlass.core.workflows.workflow import Workflow

NS = "{http://www.w3.org/2000/svg}"


def drawn(workflow: Workflow, letters: str | None = None) -> Any:
    return ElementTree.fromstring(draw_svg(workflow, letters))


def steps(picture: Any) -> dict[str, Any]:
    return {group.findtext(f"{NS}title").splitlines()[0]: group for group in picture.iter(f"{NS}g")}


def place(group: Any) -> tuple[float, float]:
    x, y = re.fullmatch(r"translate\(([\d.]+) ([\d.]+)\)", group.get("transform")).groups()  # type: ignore[union-attr]
    return float(x), float(y)


def test_kinds_conditions_and_the_final_step_are_visible() -> None:
    picture = drawn(ORDERS)
    found = steps(picture)
    assert list(found) == [step.name for step in ORDERS.steps]
    assert found["discover"].get("class") == "step job"
    assert found["clean"].get("class") == "step command final"
    told = [text.text for text in found["report"].iter(f"{NS}text")]
    assert told == ["report", "workflow monthly-report", "if tasks.paid.body.ok == true"]
    classes = [path.get("class") for path in picture.iter(f"{NS}path")]
    assert classes.count("edge on-failure") == 1
    assert classes.count("edge on-complete") == 4  # the if, and three into the final step
    labels = [text.text for text in picture.iter(f"{NS}text") if text.get("class") == "label"]
    assert sorted(labels) == ["complete"] * 4 + ["failure"]


def test_the_steps_of_a_run_are_coloured_by_state() -> None:
    found = steps(drawn(ORDERS, "ssfska.tc"))
    words = [group.get("class").split()[2] for group in found.values()]
    assert words == [
        "succeeded",
        "succeeded",
        "failed",
        "succeeded",
        "skipped",
        "active",
        "waiting",
        "timed-out",
        "final",
    ]
    assert found["clean"].get("class").split()[3] == "cancelled"
    assert found["charge"].findtext(f"{NS}title").endswith("\nfailed")


HOSTILE = '</title></svg><script>alert("1")</script><!-- ]]> & \' \x00\x1b\ud800\uffff onload=x'


def test_hostile_names_are_escaped() -> None:
    hostile = (
        Step(name=HOSTILE, action=CommandAction(HOSTILE), condition=HOSTILE),
        Step(name="b", action=SleepAction(timedelta(1)), edges=(Edge(HOSTILE),)),
    )
    text = draw_svg(Workflow(HOSTILE, hostile))
    text.encode()
    kinds = {element.tag.removeprefix(NS) for element in ElementTree.fromstring(text).iter()}
    assert kinds == {"svg", "style", "defs", "marker", "path", "text", "g", "title", "rect"}
    attributes = {name for element in ElementTree.fromstring(text).iter() for name in element.attrib}
    assert not {name for name in attributes if name.startswith("on") or "href" in name}


@given(workflows())
def test_every_step_is_drawn_below_its_parents_without_overlap(workflow: Workflow) -> None:
    places = {name: place(group) for name, group in steps(drawn(workflow)).items()}
    assert len(places) == len(workflow.steps)
    for step in workflow.steps:
        for edge in step.edges:
            assert places[edge.parent][1] < places[step.name][1]
    assert_apart(places)


def assert_apart(places: dict[str, tuple[float, float]]) -> None:
    by_row: dict[float, list[float]] = {}
    for x, y in places.values():
        by_row.setdefault(y, []).append(x)
    for row in map(sorted, by_row.values()):
        assert all(right - left >= WIDTH + GAP - 0.2 for left, right in pairwise(row))


def test_a_chain_is_a_straight_line_and_a_fork_is_even() -> None:
    assert len({place(group)[0] for group in steps(drawn(chain(9))).values()}) == 1
    fork = {"a": {"sleep": 1}, "b": {"sleep": 1, "needs": ["a"]}, "c": {"sleep": 1, "needs": ["a"]}}
    found = steps(drawn(parse({"name": "w", "tasks": fork | {"d": {"sleep": 1, "needs": ["b", "c"]}}})))
    a, b, c, d = (place(found[name])[0] for name in "abcd")
    assert a == d == (b + c) / 2


def test_avoidable_crossings_of_edges_are_avoided() -> None:
    """Two chains whose steps are interleaved in definition order."""
    layout = lay_out(6, [(0, 3), (1, 2), (3, 4), (2, 5)], width=10, gap=2)
    x = [spot.x for spot in layout.spots]
    assert (x[0] < x[1]) == (x[3] < x[2]) == (x[4] < x[5])


def test_a_long_edge_goes_around_the_boxes_between() -> None:
    layout = lay_out(3, [(0, 1), (1, 2), (0, 2)], width=100, gap=10)
    [_, _, around] = layout.routes
    assert len(around) == 3
    assert abs(around[1].x - layout.spots[1].x) >= 60


@pytest.mark.parametrize("workflow", [chain(5000), comb(5000)], ids=["chain", "comb"])
def test_large_graphs_are_drawn_quickly(workflow: Workflow) -> None:
    start = process_time()
    text = draw_svg(workflow)
    assert process_time() - start < 3
    assert text.count('<g class="step') == 5000


def test_a_step_that_all_others_need_does_not_slow_the_layout_down() -> None:
    edges = [(n - 1, n) for n in range(1, 5000)] + [(0, n) for n in range(2, 5000)]
    start = process_time()
    layout = lay_out(5000, edges, width=WIDTH, gap=GAP)
    assert process_time() - start < 3
    assert max(map(len, layout.routes)) == 2
