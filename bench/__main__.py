"""`python -m bench`: all contestants, all measures, one table. The exit code tells breakage, not slowness.

With `--check` it compares ratios with the recorded ones instead, and the exit code is 1 if one got worse.
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import environment, recorded, report
from bench.plan import CONTESTANTS, Measure, Plan
from bench.ratios import Verdict, compare, ratios
from bench.recorded import Entry
from bench.runner import Arena
from bench.server import NotDurable, Server, own_server

QUICK = {
    "repeat": 3,
    "jobs": 10_000,
    "process_jobs": 20_000,
    "singles": 3_000,
    "samples": 300,
    "snapshot_jobs": 40_000,
    "chains": 4_000,
    "fan_out": 1_000,
    "lone_steps": 400,
    "history": 300_000,
    "requests": 600,
}


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the server is stopped on the way out
    args = _arguments().parse_args()
    requested = _plan(args)
    entries = recorded.read(args.file)
    if args.check:
        entries = {pair: entry for pair, entry in entries.items() if pair.measure in requested.measures}
        if not entries:
            print(f"nothing to compare with in {args.file}: `python -m bench --record` writes it", file=sys.stderr)
            return 1
        requested = _plan_of_check(requested, entries)
    python = environment.python_for(requested.contestants)
    missing = [name for name in requested.contestants if not environment.is_installed(name, python)]
    plan = replace(requested, contestants=tuple(name for name in requested.contestants if name not in missing))
    try:
        with own_server() as server:  # outside of the loop: it is stopped however that ends
            about, arena, found = asyncio.run(_run(plan, python, server))
    except NotDurable as error:
        print(error, file=sys.stderr)
        return 1
    print("  ".join(f"{name} {value}" for name, value in about.items()))
    print(report.text(plan, found, missing=missing, failures=arena.failures))
    print(report.machine(arena.others))
    if args.json:
        args.json.write_text(json.dumps(report.document(plan, found, about, arena.others), indent=1) + "\n")
    worse = False
    if args.check:
        compared = compare({pair: entry.ratio for pair, entry in entries.items()}, ratios(found))
        print(report.comparison(compared, entries, plan))
        worse = any(one.verdict is Verdict.WORSE for one in compared)
    if args.record:
        today = datetime.now(UTC).date().isoformat()
        new = {
            pair: Entry(ratio, plan.count(pair.measure, "windlass"), arena.others[pair.measure], today, about)
            for pair, ratio in ratios(found).items()
        }
        recorded.write(args.file, new)
        print(f"recorded {len(new)} ratios in {args.file}")
    return 1 if arena.failures or worse else 0


async def _run(plan: Plan, python: Path, server: Server) -> tuple[dict[str, Any], Arena, list[Any]]:
    about = {
        "Postgres": await server.version(),
        "Python": platform.python_version(),
        "cores": os.cpu_count(),
        **environment.versions(python),
    }
    arena = Arena(server, python, plan)
    return about, arena, await arena.run()


def _plan(args: argparse.Namespace) -> Plan:
    given = {name: getattr(args, name) for name in QUICK if getattr(args, name) is not None}
    return Plan(measures=args.only, contestants=args.contestants, **{**(QUICK if args.quick else {}), **given})


def _plan_of_check(plan: Plan, entries: recorded.Entries) -> Plan:
    """Only what the recorded ratios need."""
    measures = {pair.measure for pair in entries}
    contestants = {"windlass", *(pair.rival for pair in entries)}
    return replace(
        plan,
        measures=tuple(measure for measure in plan.measures if measure in measures),
        contestants=tuple(name for name in plan.contestants if name in contestants),
    )


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", type=_measures, default=tuple(Measure), metavar=",".join(Measure))
    parser.add_argument("--contestants", type=_contestants, default=CONTESTANTS, metavar=",".join(CONTESTANTS))
    parser.add_argument("--quick", action="store_true", help="a smaller run: a look, not a result")
    parser.add_argument("--repeat", type=int, help="how often everybody has a turn (5)")
    parser.add_argument("--jobs", type=int, help="for drain and submit (20000)")
    parser.add_argument("--process-jobs", type=int, help="for processes (60000)")
    parser.add_argument("--singles", type=int, help="jobs for singles (10000)")
    parser.add_argument("--samples", type=int, help="for latency (3000)")
    parser.add_argument("--snapshot-jobs", type=int, help="for snapshot (200000)")
    parser.add_argument("--chains", type=int, help="runs for chains and history (10000)")
    parser.add_argument("--fan-out", type=int, help="how many instances fanout has (1000)")
    parser.add_argument("--lone-steps", type=int, help="of the long chain of lone (2000)")
    parser.add_argument("--history", type=int, help="finished jobs in the tables of history (5000000)")
    parser.add_argument("--requests", type=int, help="for each number of connections of http (3000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    parser.add_argument("--record", action="store_true", help="write the measured ratios into the file of ratios")
    parser.add_argument("--check", action="store_true", help="compare with the file of ratios; exit code 1 if worse")
    parser.add_argument("--file", type=Path, default=recorded.FILE, help="the file of ratios (bench/recorded.json)")
    return parser


def _measures(text: str) -> tuple[Measure, ...]:
    return tuple(Measure(word) for word in text.split(","))


def _contestants(text: str) -> tuple[str, ...]:
    return tuple(name for name in CONTESTANTS if name in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
