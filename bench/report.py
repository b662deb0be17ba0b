"""Renders results: plain tables for people, a JSON document for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from bench.environment import NEEDS
from bench.machine import QUIET
from bench.plan import TITLES, Measure, Plan, Series, is_time
from bench.ratios import TOLERANCE, Compared, Ratio, Verdict
from bench.recorded import Entries
from bench.thresholds import BEST_PEER, Judged, Results, judge


def text(plan: Plan, series: Sequence[Series], *, missing: Sequence[str], failures: Sequence[str]) -> str:
    results = Results(series)
    lines = [line for measure in plan.measures for line in _table(measure, series, results)]
    lines += [f"{name}: not installed{_needs(name)}" for name in missing]
    lines += [f"FAILED {failure}" for failure in failures]
    lines += ["", "floors (ratios of medians, or medians in seconds)", *(_verdict(judged) for judged in judge(results))]
    return "\n".join(lines)


def document(
    plan: Plan, series: Sequence[Series], about: dict[str, Any], others: Mapping[Measure, float]
) -> dict[str, Any]:
    return {
        "about": about,
        "plan": asdict(plan),
        "others": dict(others),
        "results": [asdict(row) for row in series],
        "floors": [asdict(floor) | {"verdict": floor.verdict} for floor in judge(Results(series))],
    }


def machine(others: Mapping[Measure, float]) -> str:
    """Return whether the machine was quiet, from the cores that other processes used between the repetitions."""
    loud = {measure: cores for measure, cores in others.items() if cores > QUIET}
    if not loud:
        return f"\nThe machine was quiet: other processes used {max(others.values(), default=0):.2f} cores at most."
    named = ", ".join(f"{measure} {cores:.2f}" for measure, cores in loud.items())
    return (
        f"\nTHE MACHINE WAS NOT QUIET: other processes used cores ({named}). The numbers are unreliable; run it again."
    )


def comparison(compared: Sequence[Compared], entries: Entries, plan: Plan) -> str:
    """Return the table of recorded and new ratios with their verdicts."""
    rows = [f"  {'measure':<44}{'recorded':>22}{'now':>22}  verdict"]
    for one in compared:
        count, then = plan.count(one.pair.measure, "windlass"), entries[one.pair]
        notes = [f"recorded {then.date}"]
        notes += [f"recorded with {then.count:,}, now {count:,}"] if then.count != count else []
        notes += ["recorded on a busy machine"] if then.others > QUIET else []
        line = f"  {one.pair!s:<44}{_range(one.recorded):>22}{_range(one.now):>22}  {one.verdict}"
        rows.append(f"{line} ({'; '.join(notes)})")
    worse = sum(one.verdict is Verdict.WORSE for one in compared)
    rows.append(f"{worse} of {len(compared)} ratios got worse by more than {TOLERANCE:.0%} beyond the noise")
    return "\n".join(["", "ratios: median (quartiles of the repetitions)", *rows])


def _range(ratio: Ratio | None) -> str:
    return "-" if ratio is None else f"{ratio.value:.2f} ({ratio.low:.2f} - {ratio.high:.2f})"


def _needs(contestant: str) -> str:
    return f" ({NEEDS[contestant]})" if contestant in NEEDS else ""


def _table(measure: Measure, series: Sequence[Series], results: Results) -> list[str]:
    rows = [_row(one, results) for one in series if one.measure is measure]
    head = ("contestant", "", "median", "min - max", "/ bare", "/ best peer")
    return ["", TITLES[measure], *(_columns(row) for row in [head, *rows])]


def _row(series: Series, results: Results) -> tuple[str, ...]:
    middle = median(series.values)
    show = ("{:.3f}" if is_time(series.measure, series.column) else "{:,.0f}").format
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
    return f"  {floor.text:<42}{reached:>7}  (floor {sign} {floor.needed:.2f})  {judged.verdict}"
