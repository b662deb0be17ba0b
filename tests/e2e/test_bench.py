"""The benchmark runs, reports and judges. Its speed is not tested here."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COUNTS = [
    *("--repeat", "1", "--jobs", "300", "--samples", "3", "--snapshot-jobs", "300", "--process-jobs", "300"),
    *("--chains", "30", "--fan-out", "20", "--lone-steps", "50", "--history", "3000"),
    *("--singles", "100", "--requests", "40"),
]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return an importer for modules of `bench`, which is in the checkout and not installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"bench.{name}")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """Run a tiny benchmark without the peers; return what it printed and what it wrote."""
    file = tmp_path_factory.mktemp("bench") / "bench.json"
    command = [sys.executable, "-m", "bench", "--contestants", "bare,windlass", *COUNTS, "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads(file.read_text())


@pytest.mark.soak
@pytest.mark.timeout(600)  # many processes start, one after the other
def test_every_measure_has_a_positive_number_for_each_contestant(ran: tuple[str, dict[str, Any]]) -> None:
    rows = {(row["measure"], row["contestant"], row["column"]): row["values"] for row in ran[1]["results"]}
    assert rows.keys() == {
        ("drain", "bare", "rate"),
        ("drain", "windlass", "rate"),
        ("processes", "bare", "one"),
        ("processes", "bare", "two"),
        ("processes", "windlass", "one"),
        ("processes", "windlass", "two"),
        ("singles", "bare", "rate"),
        ("singles", "windlass", "rate"),
        ("submit", "bare", "rate"),
        ("submit", "windlass", "rate"),
        ("latency", "windlass", "p50"),
        ("latency", "windlass", "p99"),
        ("snapshot", "windlass", "quiet"),
        ("snapshot", "windlass", "held"),
        ("chains", "bare", "rate"),
        ("chains", "windlass", "rate"),
        ("fanout", "bare", "seconds"),
        ("fanout", "windlass", "seconds"),
        ("lone", "windlass", "short"),
        ("lone", "windlass", "long"),
        ("history", "windlass", "empty"),
        ("history", "windlass", "full"),
    } | {
        ("http", name, f"{connections} {column}")
        for name in ("bare", "windlass")
        for connections in (1, 8, 32)
        for column in ("rate", "p50", "p99")
    }
    assert all(value > 0 for values in rows.values() for value in values)


@pytest.mark.soak
@pytest.mark.timeout(600)  # many processes start, one after the other
def test_the_table_names_contestants_and_floors(ran: tuple[str, dict[str, Any]]) -> None:
    printed = ran[0]
    assert "bare" in printed
    assert "windlass" in printed
    assert all(one["floor"]["text"] in printed for one in ran[1]["floors"])
    assert "not measured" in printed  # there was no peer to compare with


def test_each_contestant_runs_first_once_per_round(bench: Callable[[str], Any]) -> None:
    rotated = bench("runner").rotated
    assert [rotated(["a", "b", "c"], turn)[0] for turn in range(4)] == ["a", "b", "c", "a"]
    assert rotated([], 3) == []


def test_percentiles_of_a_known_series_are_correct(bench: Callable[[str], Any]) -> None:
    assert bench("runner").percentiles([float(n) for n in range(101)]) == {"p50": 50.0, "p99": 99.0}


@pytest.mark.parametrize(
    ("measure", "column", "ours", "theirs", "verdict"),
    [
        ("drain", "rate", 2.0, 1.0, "met"),
        ("drain", "rate", 0.9, 1.0, "MISSED"),
        ("drain", "rate", 2.0, None, "not measured"),
        ("latency", "p50", 0.9, 1.0, "met"),  # a time: less is better
        ("latency", "p50", 1.1, 1.0, "MISSED"),
    ],
)
def test_a_floor_compares_the_median_of_windlass_with_that_of_the_rival(
    bench: Callable[[str], Any], measure: str, column: str, ours: float, theirs: float | None, verdict: str
) -> None:
    plan, floors = bench("plan"), bench("thresholds")
    kind = plan.Measure(measure)
    found = [
        plan.Series(measure=kind, contestant=name, column=column, values=(value,))
        for name, value in (("windlass", ours), ("pgqueuer", theirs))
        if value is not None
    ]
    judged = [one for one in floors.judge(floors.Results(found)) if one.floor.measure is kind]
    assert judged[0].verdict == verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(0.29, "met"), (0.31, "MISSED")])
def test_a_floor_without_a_rival_is_an_absolute_limit(
    bench: Callable[[str], Any], seconds: float, verdict: str
) -> None:
    plan, floors = bench("plan"), bench("thresholds")
    kind = plan.Measure.FANOUT
    found = [plan.Series(measure=kind, contestant="windlass", column="seconds", values=(seconds,))]
    alone, against_bare = [one for one in floors.judge(floors.Results(found)) if one.floor.measure is kind]
    assert (alone.verdict, against_bare.verdict) == (verdict, "not measured")


def test_every_measure_has_a_title_entrants_and_a_floor(bench: Callable[[str], Any]) -> None:
    plan, floors = bench("plan"), bench("thresholds")
    assert set(plan.TITLES) == set(plan.ENTRANTS) == set(plan.Measure)
    assert {floor.measure for floor in floors.FLOORS} == set(plan.Measure)


def test_slow_contestants_get_smaller_counts(bench: Callable[[str], Any]) -> None:
    plan = bench("plan")
    wanted = plan.Plan(chains=1000)
    assert wanted.count(plan.Measure.CHAINS, "windlass") == 1000
    assert wanted.count(plan.Measure.CHAINS, "dbos") == 50
    assert wanted.count(plan.Measure.HISTORY, "windlass") == 1000


def test_a_history_that_would_fill_the_disk_is_refused(bench: Callable[[str], Any], tmp_path: Path) -> None:
    server = bench("server")
    with pytest.raises(server.NoSpace, match="GB are free"):
        server.Server("", tmp_path).ensure_space(2**60)


@pytest.mark.soak
@pytest.mark.timeout(600)  # many processes start, one after the other
def test_a_regression_against_recorded_ratios_exits_with_code_1(tmp_path: Path) -> None:
    file = tmp_path / "recorded.json"
    command = [sys.executable, "-m", "bench", "--contestants", "bare,windlass", "--only", "submit", "--file", str(file)]
    assert subprocess.run([*command, *COUNTS, "--record"], cwd=ROOT, timeout=280).returncode == 0
    [row] = json.loads(file.read_text())["ratios"]
    assert (row["measure"], row["rival"], row["count"], row["repetitions"]) == ("submit", "bare", 300, 1)
    file.write_text(json.dumps({"ratios": [row | {"ratio": 1000.0, "quartiles": [1000.0, 1000.0]}]}))
    done = subprocess.run([*command, *COUNTS, "--check"], cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 1
    assert "WORSE" in done.stdout


@pytest.mark.soak
@pytest.mark.timeout(600)  # many processes start
def test_the_scale_benchmark_ends_by_itself_and_prints_its_results() -> None:
    amounts = ["--history", "3000", "--live", "100", "--held", "20", "--workers", "2"]
    times = ["--minutes", "0.2", "--warm-up", "0", "--interval", "3", "--fill-limit", "2"]
    command = [sys.executable, "-m", "bench.scale", *amounts, *times]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'ended': 3000, 'live': 100" in done.stderr
    assert done.stderr.count("doctor: nothing to report") == 2
    assert done.stdout.count("drift") == 5
