"""`python -m bench.cron` compares the in-process scheduler with APScheduler and `schedule`, each in its own process.

It needs no database. The exit code is 1 if a contestant failed, not if a floor was missed.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import environment

US, PEERS = "windlass", ("apscheduler", "schedule")
TIMEOUT = 300  # seconds


@dataclass(frozen=True)
class Trial:
    verb: str
    title: str
    count: int
    entrants: tuple[str, ...] = (US, *PEERS)


TRIALS = (
    Trial("add_crons", "10,000 entries with expressions, until each has its next time", 10_000, (US, "apscheduler")),
    Trial("add_intervals", "10,000 entries with intervals, until each has its next time", 10_000),
    Trial("next_runs", "the next time of 10,000 cron expressions", 10_000, (US, "apscheduler")),
    Trial("dispatch", "1,000 due entries, until each has run", 1_000),
)


def main() -> int:
    args = _arguments().parse_args()
    python = args.python or environment.python_for(environment.PEERS)
    missing = [name for name in PEERS if not _has(python, name)]
    failures: list[str] = []
    print("CPU time per entry in microseconds: median (min - max), and its ratio to Windlass")
    verdicts = [line for trial in TRIALS for line in _run_trial(trial, python, args.repeat, missing, failures)]
    print("\n".join(["", "floors (time of the peer divided by ours)", *verdicts]))
    print("".join(f"{name}: not installed\n" for name in missing) + "".join(f"FAILED {text}\n" for text in failures))
    return 1 if failures else 0


def _run_trial(trial: Trial, python: Path, repeat: int, missing: Sequence[str], failures: list[str]) -> list[str]:
    """Measure a trial and print its table; return the lines of its verdicts."""
    entrants = [name for name in trial.entrants if name not in missing]
    times: dict[str, list[float]] = {name: [] for name in entrants}
    for turn in range(repeat):
        for name in entrants[turn % len(entrants) :] + entrants[: turn % len(entrants)]:
            try:
                times[name].append(_seconds(python, name, trial) / trial.count * 1e6)
            except (subprocess.SubprocessError, ValueError) as error:
                failures.append(f"{trial.verb} {name}: {getattr(error, 'stderr', None) or error}")
    medians = {name: median(values) for name, values in times.items() if values}
    print(f"\n{trial.title}")
    for name, middle in medians.items():
        spread = f"({min(times[name]):.2f} - {max(times[name]):.2f})"
        print(f"  {name:<14}{middle:>10.2f} {spread:>20}{_ratio(middle, medians.get(US)):>8}")
    return [_verdict(trial, name, medians) for name in trial.entrants if name != US]


def _verdict(trial: Trial, rival: str, medians: dict[str, float]) -> str:
    text = f"  {f'{trial.verb} / {rival}':<40}"
    if rival not in medians or US not in medians:
        return f"{text}      -  (floor >= 1.00)  not measured"
    reached = medians[rival] / medians[US]
    return f"{text}{reached:>7.2f}  (floor >= 1.00)  {'met' if reached >= 1 else 'MISSED'}"


def _seconds(python: Path, name: str, trial: Trial) -> float:
    command = [str(python), "-m", f"bench.cron_contestants.{name}", trial.verb, "--count", str(trial.count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT, cwd=environment.ROOT)
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def _ratio(value: float, ours: float | None) -> str:
    return f"{value / ours:.2f}" if ours else "-"


def _has(python: Path, name: str) -> bool:
    return subprocess.run([python, "-c", f"import {name}"], capture_output=True, cwd="/").returncode == 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.cron", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of each trial (5)")
    parser.add_argument("--python", type=Path, help="an interpreter that has the peers, instead of .venv-bench")
    return parser


if __name__ == "__main__":
    sys.exit(main())
