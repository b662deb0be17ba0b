"""Workflows as Mermaid flowcharts."""

import re
from datetime import timedelta
from time import process_time

from hypothesis import given

from tests.unit.test_diagram_tree import ORDERS, chain
from tests.unit.test_workflow import workflows
from windlass.core.diagrams import draw_mermaid
from windlass.core.workflows.step import CommandAction, Edge, SleepAction, Step
from windlass.core.workflows.workflow import Workflow

NODE = re.compile(r'  s\d+(\[|\(\[|\(\(|\{\{|\[/|\[\[)"([^"\n]*)"(\]|\]\)|\)\)|\}\}|/\]|\]\])')
ARROW = re.compile(r"  s\d+ (-->|-\. (failure|skipped|complete) \.->) s\d+")
COLOUR = re.compile(r"  (classDef \w+ [\w:#,-]+|class s\d+(,s\d+)* \w+)")


def test_each_kind_of_step_has_its_shape_and_each_edge_its_condition() -> None:
    drawn = draw_mermaid(ORDERS).splitlines()
    assert drawn[0] == "flowchart TD"
    assert '  s0["discover<br/>job files.discover.v1"]' in drawn
    assert '  s2(["charge<br/>POST https://shop.example/charge"])' in drawn
    assert '  s3[/"alarm<br/>run ./alarm.sh"/]' in drawn
    assert '  s4(("cool-down<br/>sleep 30s"))' in drawn
    assert '  s5{{"paid<br/>wait for a callback, 1h at most"}}' in drawn
    assert '  s6[["report<br/>workflow monthly-report<br/>if tasks.paid.body.ok == true"]]' in drawn
    assert "  s0 --> s1" in drawn
    assert "  s2 -. failure .-> s3" in drawn
    assert [line for line in drawn if line.endswith("s8")] == [f"  s{n} -. complete .-> s8" for n in (3, 6, 7)]


def test_the_steps_of_a_run_are_coloured_by_state() -> None:
    drawn = draw_mermaid(ORDERS, "ssfska.tc")
    assert "  class s0,s1,s3 succeeded\n" in drawn
    assert "  class s7 timed_out\n" in drawn
    assert "classDef" not in draw_mermaid(ORDERS)


HOSTILE = '"] --> evil["<script>alert(1)</script>"]\nclick s0 "javascript:alert(1)" %% `# #quot; ; end'


def test_hostile_names_stay_inside_their_label() -> None:
    steps = (
        Step(name=HOSTILE, action=CommandAction(HOSTILE), condition=HOSTILE),
        Step(name="b", action=SleepAction(timedelta(1)), edges=(Edge(HOSTILE),)),
    )
    first, *nodes, arrow = draw_mermaid(Workflow(HOSTILE, steps)).splitlines()
    assert (first, arrow) == ("flowchart TD", "  s0 --> s1")
    assert len(nodes) == 2
    for line in nodes:
        label = NODE.fullmatch(line)
        assert label is not None
        assert not set(label[2].replace("<br/>", "")) & set("<>`\"'[](){}%\n")
        assert "#" not in re.sub(r"#\d+;", "", label[2])


@given(workflows())
def test_every_line_is_a_node_an_arrow_or_a_colour(workflow: Workflow) -> None:
    _, *lines = draw_mermaid(workflow, "s" * len(workflow.steps)).splitlines()
    assert all(NODE.fullmatch(line) or ARROW.fullmatch(line) or COLOUR.fullmatch(line) for line in lines)


def test_a_chain_of_five_thousand_steps_is_drawn_quickly() -> None:
    start = process_time()
    assert draw_mermaid(chain(5000)).count("-->") == 4999
    assert process_time() - start < 2
