"""`python -m bench`: all contestants, all measures, one table. The exit code tells breakage, not slowness."""

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
from pathlib import Path
from typing import Any

from bench import environment, report
from bench.plan import CONTESTANTS, Measure, Plan, Series
from bench.runner import Arena
from bench.server import NotDurable, Server, own_server

QUICK = {
    "repeat": 3,
    "jobs": 10_000,
    "samples": 100,
    "snapshot_jobs": 40_000,
    "chains": 4_000,
    "fan_out": 1_000,
    "lone_steps": 400,
    "history": 300_000,
}


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the server is stopped on the way out
    args = _arguments().parse_args()
    wanted = _plan(args)
    python = environment.python_for(wanted.contestants)
    missing = [name for name in wanted.contestants if not environment.is_installed(name, python)]
    present = tuple(name for name in wanted.contestants if name not in missing)
    plan = Plan(**{**vars(wanted), "contestants": present})
    try:
        with own_server() as server:  # outside of the loop: it is stopped however that ends
            about, found, failures = asyncio.run(_run(plan, python, server))
    except NotDurable as error:
        print(error, file=sys.stderr)
        return 1
    print("  ".join(f"{name} {value}" for name, value in about.items()))
    print(report.text(plan, found, missing=missing, failures=failures))
    if args.json:
        args.json.write_text(json.dumps(report.document(plan, found, about), indent=1) + "\n")
    return 1 if failures else 0


async def _run(plan: Plan, python: Path, server: Server) -> tuple[dict[str, Any], list[Series], list[str]]:
    about = {
        "Postgres": await server.version(),
        "Python": platform.python_version(),
        "cores": os.cpu_count(),
        **environment.versions(python),
    }
    arena = Arena(server, python, plan)
    return about, await arena.run(), arena.failures


def _plan(args: argparse.Namespace) -> Plan:
    given = {name: getattr(args, name) for name in QUICK if getattr(args, name) is not None}
    return Plan(measures=args.only, contestants=args.contestants, **{**(QUICK if args.quick else {}), **given})


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", type=_measures, default=tuple(Measure), metavar=",".join(Measure))
    parser.add_argument("--contestants", type=_contestants, default=CONTESTANTS, metavar=",".join(CONTESTANTS))
    parser.add_argument("--quick", action="store_true", help="a smaller run: a look, not a result")
    parser.add_argument("--repeat", type=int, help="how often everybody has a turn (5)")
    parser.add_argument("--jobs", type=int, help="for drain and submit (20000)")
    parser.add_argument("--samples", type=int, help="for latency (300)")
    parser.add_argument("--snapshot-jobs", type=int, help="for snapshot (200000)")
    parser.add_argument("--chains", type=int, help="runs for chains and history (10000)")
    parser.add_argument("--fan-out", type=int, help="how many instances fanout has (1000)")
    parser.add_argument("--lone-steps", type=int, help="of the long chain of lone (2000)")
    parser.add_argument("--history", type=int, help="finished jobs in the tables of history (5000000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    return parser


def _measures(text: str) -> tuple[Measure, ...]:
    return tuple(Measure(word) for word in text.split(","))


def _contestants(text: str) -> tuple[str, ...]:
    return tuple(name for name in CONTESTANTS if name in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
