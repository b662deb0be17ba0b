"""`python -m bench` runs all measures for all contestants and prints tables.

The exit code is 1 if a contestant failed, not if a floor was missed. With `--check` it also compares ratios with the
recorded ones, and the exit code is 1 if a ratio got worse.
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
from bench.runner import Runner
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
        with own_server() as server:  # outside of the event loop: it is stopped however that ends
            about, runner, series = asyncio.run(_run(plan, python, server))
    except NotDurable as error:
        print(error, file=sys.stderr)
        return 1
    print("  ".join(f"{name} {value}" for name, value in about.items()))
    print(report.text(plan, series, missing=missing, failures=runner.failures))
    print(report.machine(runner.others))
    if args.json:
        args.json.write_text(json.dumps(report.document(plan, series, about, runner.others), indent=1) + "\n")
    worse = False
    if args.check:
        compared = compare({pair: entry.ratio for pair, entry in entries.items()}, ratios(series))
        print(report.comparison(compared, entries, plan))
        worse = any(one.verdict is Verdict.WORSE for one in compared)
    if args.record:
        today = datetime.now(UTC).date().isoformat()
        new = {
            pair: Entry(ratio, plan.count(pair.measure, "windlass"), runner.others[pair.measure], today, about)
            for pair, ratio in ratios(series).items()
        }
        recorded.write(args.file, new)
        print(f"recorded {len(new)} ratios in {args.file}")
    return 1 if runner.failures or worse else 0


async def _run(plan: Plan, python: Path, server: Server) -> tuple[dict[str, Any], Runner, list[Any]]:
    about = {
        "Postgres": await server.version(),
        "Python": platform.python_version(),
        "cores": os.cpu_count(),
        **environment.versions(python),
    }
    runner = Runner(server, python, plan)
    return about, runner, await runner.run()


def _plan(args: argparse.Namespace) -> Plan:
    amounts = {name: getattr(args, name) for name in QUICK if getattr(args, name) is not None}
    return Plan(measures=args.only, contestants=args.contestants, **{**(QUICK if args.quick else {}), **amounts})


def _plan_of_check(plan: Plan, entries: recorded.Entries) -> Plan:
    """Return the part of a plan that the recorded ratios need."""
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
    parser.add_argument("--quick", action="store_true", help="small amounts, to try the benchmark; not a result")
    parser.add_argument("--repeat", type=int, help="repetitions of each measure (5)")
    parser.add_argument("--jobs", type=int, help="jobs of drain and submit (20000)")
    parser.add_argument("--process-jobs", type=int, help="jobs of processes (60000)")
    parser.add_argument("--singles", type=int, help="jobs of singles (10000)")
    parser.add_argument("--samples", type=int, help="samples of latency (3000)")
    parser.add_argument("--snapshot-jobs", type=int, help="jobs of snapshot (200000)")
    parser.add_argument("--chains", type=int, help="runs of chains and history (10000)")
    parser.add_argument("--fan-out", type=int, help="instances in the run of fanout (1000)")
    parser.add_argument("--lone-steps", type=int, help="steps in the long chain of lone (2000)")
    parser.add_argument("--history", type=int, help="ended jobs in the tables of history (5000000)")
    parser.add_argument("--requests", type=int, help="requests of http for each number of connections (3000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all results to FILE")
    parser.add_argument("--record", action="store_true", help="write the measured ratios to the file of ratios")
    parser.add_argument("--check", action="store_true", help="compare with the file of ratios; exit code 1 if worse")
    parser.add_argument("--file", type=Path, default=recorded.FILE, help="the file of ratios (bench/recorded.json)")
    return parser


def _measures(text: str) -> tuple[Measure, ...]:
    return tuple(Measure(word) for word in text.split(","))


def _contestants(text: str) -> tuple[str, ...]:
    return tuple(name for name in CONTESTANTS if name in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
