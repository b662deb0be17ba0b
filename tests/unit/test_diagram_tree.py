"""Workflows as text."""

from time import process_time

import pytest
from hypothesis import given

from tests.unit.test_workflow import workflows
from windlass.core.definition.parser import parse
from windlass.core.diagrams import draw_tree
from windlass.core.workflows.step import Edge, SleepAction, Step
from windlass.core.workflows.workflow import Workflow
from windlass.errors import Invalid

ORDERS = parse(
    {
        "name": "orders",
        "trigger": {"cron": "0 2 * * *", "timezone": "Europe/Berlin"},
        "tasks": {
            "discover": {"job": "files.discover.v1"},
            "process": {
                "needs": ["discover"],
                "foreach": "discover.files",
                "concurrency": 4,
                "job": "files.process.v1",
            },
            "charge": {"needs": ["process"], "url": "https://shop.example/charge"},
            "alarm": {"needs": {"charge": "failure"}, "run": "./alarm.sh"},
            "cool-down": {"needs": ["charge"], "sleep": "30s"},
            "paid": {"needs": ["cool-down"], "wait_for_webhook": {"timeout": "1h"}},
            "report": {"needs": ["paid"], "if": "tasks.paid.body.ok == true", "workflow": "monthly-report"},
            "archive": {"needs": ["discover", "paid"], "join": "any", "parallel": 3, "job": "files.archive.v1"},
            "clean": {"final": True, "run": "./clean.sh"},
        },
    }
)


def test_a_sequence_is_a_column_and_a_branch_is_indented_beside_it() -> None:
    assert draw_tree(ORDERS) == (
        "orders  cron 0 2 * * *, Europe/Berlin\n"
        "● discover  job files.discover.v1\n"
        "● process  job files.process.v1; for each of discover.files, 4 at a time\n"
        "● charge  POST https://shop.example/charge\n"
        "├─● alarm  run ./alarm.sh; needs charge (failure)\n"
        "● cool-down  sleep 30s\n"
        "● paid  wait for a callback, 1h at most\n"
        "├─● report  workflow monthly-report; if tasks.paid.body.ok == true\n"
        "● archive  job files.archive.v1; 3 instances; needs any of discover, paid\n"
        "◆ clean  run ./clean.sh; final\n"
    )


def test_the_tree_of_a_run_shows_the_state_of_each_step() -> None:
    lines = draw_tree(ORDERS, "ssfska.tc").splitlines()
    assert [line.split()[0].strip("├─") for line in lines[1:]] == ["✔", "✔", "✘", "✔", "⊘", "▶", "○", "⧖", "■"]
    assert lines[3] == "✘ charge  POST https://shop.example/charge; failed"


def test_letters_of_another_workflow_are_refused() -> None:
    with pytest.raises(Invalid, match="there are 3 letters for the 9 steps of orders"):
        draw_tree(ORDERS, "sss")


def test_branches_within_branches_are_indented() -> None:
    needs = {"b": ["a"], "c": ["b"], "d": ["b"], "e": ["a"], "f": ["e"], "g": ["f"], "h": ["g"]}
    tasks = {name: {"needs": needs.get(name, []), "sleep": 1} for name in "abcdefghz"}
    assert draw_tree(parse({"name": "w", "tasks": tasks})).replace("  sleep 1s", "").splitlines()[1:] == [
        "├─● z",
        "● a",
        "├─● b",
        "│ ├─● c",
        "│ ● d",
        "● e",
        "● f",
        "● g",
        "● h",
    ]


@given(workflows())
def test_every_step_has_one_line(workflow: Workflow) -> None:
    _, *lines = draw_tree(workflow).splitlines()
    assert sorted(line.lstrip("│├─ ").split()[1] for line in lines) == sorted(step.name for step in workflow.steps)


def test_names_cannot_inject_terminal_control_sequences() -> None:
    second = SleepAction(ORDERS.max_duration)
    hostile = Workflow("a\x1b[2J\nb", (Step(name="x\r\x9b31m\u202e", action=second),))
    drawn = draw_tree(hostile)
    assert drawn.count("\n") == 2
    assert all(char.isprintable() or char == "\n" for char in drawn)


def chain(count: int) -> Workflow:
    sleep = SleepAction(ORDERS.max_duration)
    edges = [() if not n else (Edge(f"s{n - 1}"),) for n in range(count)]
    return Workflow("chain", tuple(Step(name=f"s{n}", action=sleep, edges=edges[n]) for n in range(count)))


def comb(count: int) -> Workflow:
    sleep = SleepAction(ORDERS.max_duration)
    edges = [() if not n else (Edge(f"s{(n - 1) // 2 * 2}"),) for n in range(count)]
    return Workflow("comb", tuple(Step(name=f"s{n}", action=sleep, edges=edges[n]) for n in range(count)))


@pytest.mark.parametrize("workflow", [chain(5000), comb(5000)], ids=["chain", "comb"])
def test_large_graphs_are_drawn_quickly_and_stay_narrow(workflow: Workflow) -> None:
    start = process_time()
    lines = draw_tree(workflow).splitlines()
    assert process_time() - start < 2
    assert len(lines) == 5001
    assert max(map(len, lines)) < 100
