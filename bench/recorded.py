"""Reads and writes bench/recorded.json, the recorded ratios: `python -m bench --record` writes it, `--check` reads it.

A run replaces only the ratios that it measured, so each ratio has its own date, versions and amount.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.environment import HERE
from bench.plan import Measure
from bench.ratios import Pair, Ratio

FILE = HERE / "recorded.json"


@dataclass(frozen=True)
class Entry:
    ratio: Ratio
    count: int  # jobs, runs, samples or requests in a repetition; only ratios of equal amounts are comparable
    others: float  # cores that other processes used meanwhile
    date: str
    versions: Mapping[str, Any]


Entries = Mapping[Pair, Entry]


def read(file: Path) -> dict[Pair, Entry]:
    if not file.exists():
        return {}
    return {_pair(row): _entry(row) for row in json.loads(file.read_text())["ratios"]}


def write(file: Path, entries: Entries) -> None:
    """Merge these entries into the file."""
    merged = read(file) | dict(entries)
    rows = [_row(pair, merged[pair]) for pair in sorted(merged)]
    lines = ",\n".join("  " + json.dumps(row) for row in rows)  # one line each, for readable diffs
    file.write_text(f'{{"ratios": [\n{lines}\n]}}\n')


def _row(pair: Pair, entry: Entry) -> dict[str, Any]:
    ratio = entry.ratio
    return {
        "measure": pair.measure,
        "column": pair.column,
        "rival": pair.rival,
        "rival_column": pair.rival_column,
        "ratio": round(ratio.value, 4),
        "quartiles": [round(ratio.low, 4), round(ratio.high, 4)],
        "repetitions": ratio.repetitions,
        "count": entry.count,
        "others": round(entry.others, 2),
        "date": entry.date,
        "versions": dict(entry.versions),
    }


def _pair(row: Mapping[str, Any]) -> Pair:
    return Pair(Measure(row["measure"]), row["column"], row["rival"], row["rival_column"])


def _entry(row: Mapping[str, Any]) -> Entry:
    low, high = row["quartiles"]
    ratio = Ratio(row["ratio"], low, high, row["repetitions"])
    return Entry(ratio, row["count"], row["others"], row["date"], row["versions"])
