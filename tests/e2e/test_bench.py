"""The benchmark room works: it measures, it reports, and it judges. How fast anything is, is not asked here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.arena import percentiles, rotated
from bench.floors import FLOORS, Results, judge
from bench.plan import Measure, Series

ROOT = Path(__file__).parents[2]
COUNTS = ["--repeat", "1", "--jobs", "300", "--samples", "3", "--snapshot-jobs", "300"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """One tiny run without the peers: what it printed, and what it wrote."""
    file = tmp_path_factory.mktemp("bench") / "bench.json"
    command = [sys.executable, "-m", "bench", "--contestants", "bare,windlass", *COUNTS, "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads(file.read_text())


def test_every_measure_has_a_positive_number_for_each_contestant(ran: tuple[str, dict[str, Any]]) -> None:
    rows = {(row["measure"], row["contestant"], row["column"]): row["values"] for row in ran[1]["results"]}
    assert rows.keys() == {
        ("drain", "bare", "rate"),
        ("drain", "windlass", "rate"),
        ("submit", "bare", "rate"),
        ("submit", "windlass", "rate"),
        ("latency", "windlass", "p50"),
        ("latency", "windlass", "p99"),
        ("snapshot", "windlass", "quiet"),
        ("snapshot", "windlass", "held"),
    }
    assert all(value > 0 for values in rows.values() for value in values)


def test_the_table_names_contestants_and_floors(ran: tuple[str, dict[str, Any]]) -> None:
    printed = ran[0]
    assert "bare" in printed
    assert "windlass" in printed
    assert all(floor.text in printed for floor in FLOORS)
    assert "not measured" in printed  # there was no peer to be ahead of


def test_everybody_goes_first_once_in_a_round() -> None:
    assert [rotated(["a", "b", "c"], turn)[0] for turn in range(4)] == ["a", "b", "c", "a"]
    assert rotated([], 3) == []


def test_percentiles_of_a_known_row() -> None:
    assert percentiles([float(n) for n in range(101)]) == {"p50": 50.0, "p99": 99.0}


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [(2.0, 1.0, "pass"), (1.0, 1.0, "pass"), (0.9, 1.0, "FAIL"), (1.0, None, "not measured")],
)
def test_a_rate_must_reach_the_floor(ours: float, theirs: float | None, verdict: str) -> None:
    found = [_series(Measure.DRAIN, "windlass", "rate", ours)]
    if theirs is not None:
        found.append(_series(Measure.DRAIN, "pgqueuer", "rate", theirs))
    assert judge(Results(found))[0].verdict == verdict


@pytest.mark.parametrize(("ours", "verdict"), [(0.9, "pass"), (1.1, "FAIL")])
def test_a_time_must_stay_below_it(ours: float, verdict: str) -> None:
    found = [_series(Measure.LATENCY, "windlass", "p50", ours), _series(Measure.LATENCY, "pgqueuer", "p50", 1.0)]
    judged = {one.floor.text: one.verdict for one in judge(Results(found))}
    assert judged["latency: p50 no slower than pgqueuer"] == verdict


def _series(measure: Measure, contestant: str, column: str, value: float) -> Series:
    return Series(measure=measure, contestant=contestant, column=column, values=(value,))
