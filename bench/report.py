"""Turns results into words: a plain table for people, one JSON document for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from bench.environment import PROGRAMS
from bench.plan import TIMES, TITLES, Measure, Plan, Series
from bench.thresholds import BEST_PEER, Judged, Results, judge


def text(plan: Plan, found: Sequence[Series], *, missing: Sequence[str], failures: Sequence[str]) -> str:
    results = Results(found)
    lines = [line for measure in plan.measures for line in _table(measure, found, results)]
    lines += [f"{name}: not installed{_needs(name)}" for name in missing]
    lines += [f"BROKE {failure}" for failure in failures]
    lines += ["", "floors (ratios of medians, or seconds)", *(_verdict(judged) for judged in judge(results))]
    return "\n".join(lines)


def document(plan: Plan, found: Sequence[Series], about: dict[str, Any]) -> dict[str, Any]:
    judged = [asdict(floor) | {"verdict": floor.verdict} for floor in judge(Results(found))]
    return {"about": about, "plan": asdict(plan), "results": [asdict(series) for series in found], "floors": judged}


def _needs(contestant: str) -> str:
    return f" (it needs {PROGRAMS[contestant]}, too)" if contestant in PROGRAMS else ""


def _table(measure: Measure, found: Sequence[Series], results: Results) -> list[str]:
    rows = [_row(series, results) for series in found if series.measure is measure]
    head = ("contestant", "", "median", "min - max", "of bare", "of best peer")
    return ["", TITLES[measure], *(_columns(row) for row in [head, *rows])]


def _row(series: Series, results: Results) -> tuple[str, ...]:
    middle = median(series.values)
    show = ("{:.3f}" if series.measure in TIMES else "{:,.0f}").format
    return (
        series.contestant,
        series.column,
        show(middle),
        f"{show(min(series.values))} - {show(max(series.values))}",
        _ratio(middle, results.of(series.measure, "bare", series.column)),
        _ratio(middle, results.of(series.measure, BEST_PEER, series.column)),
    )


def _ratio(value: float, of: float | None) -> str:
    return f"{value / of:.2f}" if of else "-"


def _columns(row: tuple[str, ...]) -> str:
    name, column, *numbers = row
    widths = (10, 20, 9, 14)
    return f"  {name:<14}{column:<8}" + "".join(
        f"{number:>{width}}" for number, width in zip(numbers, widths, strict=True)
    )


def _verdict(judged: Judged) -> str:
    floor, sign = judged.floor, "<=" if judged.floor.at_most else ">="
    reached = "-" if judged.reached is None else f"{judged.reached:.3f}"
    return f"  {floor.text:<40}{reached:>7}  (floor {sign} {floor.needed:.2f})  {judged.verdict}"
