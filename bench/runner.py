"""Runs the contestants in turns: in each repetition everybody once, the order rotating, each in a process of its own.

A contestant that breaks is left out of the rest of that measure and named in the report; the others go on.
"""

import asyncio
import json
import statistics
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from bench import machine
from bench.environment import ROOT
from bench.plan import Measure, Plan, Series
from bench.processes import Broken, drain_together
from bench.server import NoSpace, Server

PATIENCE = 1200.0
# Jobs and workflows are two modules of a contestant.
VERBS_OF_RUNS = frozenset({"prepare_chains", "prepare_history", "chains", "fan_out", "lone"})
PROCESSES = {"one": 1, "two": 2}
HISTORY_BYTES = 2_500  # of disk for each job of the history, write-ahead log included


class Arena:
    def __init__(self, server: Server, python: Path, plan: Plan) -> None:
        self._server, self._python, self._plan = server, python, plan
        self.failures: list[str] = []
        self._past: str | None = None  # where the history lies, once it is made
        self.others: dict[Measure, float] = {}  # cores that other processes used, on average

    async def run(self) -> list[Series]:
        return [series for measure in self._plan.measures for series in await self._measure(measure)]

    async def _measure(self, measure: Measure) -> list[Series]:
        entrants = self._plan.entrants(measure)
        values: dict[tuple[str, str], list[float]] = {}
        others: list[float] = []
        for repetition in range(self._plan.repeat):
            others.append(await machine.others())
            for contestant in rotated(entrants, repetition):
                try:
                    reached = await self._part(measure, contestant, repetition)
                except Broken as error:
                    self.failures.append(f"{measure} {contestant}: {error}")
                    entrants = [name for name in entrants if name != contestant]
                    continue
                _say(f"{measure} {repetition + 1}/{self._plan.repeat} {contestant}: {_brief(reached)}")
                for column, value in reached.items():
                    values.setdefault((contestant, column), []).append(value)
        others.append(await machine.others())
        self.others[measure] = statistics.fmean(others)
        found = [
            Series(measure=measure, contestant=name, column=column, values=tuple(numbers))
            for (name, column), numbers in values.items()
        ]
        return sorted(found, key=lambda series: self._plan.contestants.index(series.contestant))

    async def _part(self, measure: Measure, contestant: str, repetition: int) -> dict[str, float]:
        count = self._plan.count(measure, contestant)
        match measure:
            case Measure.DRAIN:
                return {"rate": await self._drain(contestant, count)}
            case Measure.PROCESSES:
                return await in_turns(
                    PROCESSES, repetition, lambda column: self._drain_together(contestant, count, PROCESSES[column])
                )
            case Measure.SUBMIT | Measure.SINGLES:
                url = await self._prepared(contestant, 0)
                return {"rate": count / (await self._call(contestant, measure, url, count))["seconds"]}
            case Measure.LATENCY:
                url = await self._prepared(contestant, 0)
                return percentiles((await self._call(contestant, "latency", url, count))["milliseconds"])
            case Measure.SNAPSHOT:
                return await in_turns(
                    ("quiet", "held"),
                    repetition,
                    lambda column: self._drain(contestant, count, held=column == "held"),
                )
            case Measure.CHAINS:
                return {"rate": await self._chains(contestant, count, await self._server.fresh(contestant))}
            case Measure.FANOUT:
                url = await self._server.fresh(contestant)
                return {"seconds": statistics.median((await self._call(contestant, "fan_out", url, count))["seconds"])}
            case Measure.LONE | Measure.HTTP:
                told = await self._call(contestant, measure, await self._server.fresh(contestant), count)
                return {column: value for column, value in told.items() if column != "settings"}
            case Measure.HISTORY:
                places = {"empty": await self._used(contestant, count), "full": await self._history(contestant, count)}
                return await in_turns(
                    places, repetition, lambda column: self._chains(contestant, count, places[column])
                )

    async def _drain(self, contestant: str, count: int, *, held: bool = False) -> float:
        url = await self._prepared(contestant, count)
        async with self._server.old_snapshot(url, held=held):
            return float(count / (await self._call(contestant, "drain", url, count))["seconds"])

    async def _drain_together(self, contestant: str, count: int, processes: int) -> float:
        url = await self._prepared(contestant, count)
        return count / await drain_together(self._command(contestant, "share", url, count), url, count, processes)

    async def _chains(self, contestant: str, count: int, url: str) -> float:
        await self._call(contestant, "prepare_chains", url, count)
        await self._server.settle(url)
        return float(count / (await self._call(contestant, "chains", url, count))["seconds"])

    async def _used(self, contestant: str, count: int) -> str:
        """A database whose first turn is over, like the one with a past: both start from tables that were used."""
        url = await self._server.fresh(contestant)
        await self._chains(contestant, count, url)
        return url

    async def _history(self, contestant: str, count: int) -> str:
        """A database with a past. Made once: what the repetitions add to it is little."""
        if self._past is None:
            try:
                self._server.ensure_space(self._plan.history * HISTORY_BYTES)
            except NoSpace as error:
                raise Broken(str(error)) from None
            self._past = await self._server.fresh(f"{contestant}_history")
            await self._call(contestant, "prepare_chains", self._past, 0)  # makes the tables
            await self._call(contestant, "prepare_history", self._past, self._plan.history)
            await self._server.settle(self._past)
            await self._chains(contestant, count, self._past)
            _say(f"history: {self._plan.history:,} jobs, {await self._server.size(self._past) / 2**30:.1f} GB")
        return self._past

    async def _prepared(self, contestant: str, count: int) -> str:
        url = await self._server.fresh(contestant)
        await self._call(contestant, "prepare", url, count)
        await self._server.settle(url)
        return url

    async def _call(self, contestant: str, verb: str, url: str, count: int) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *self._command(contestant, verb, url, count),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            told, complaints = await asyncio.wait_for(process.communicate(), PATIENCE)
        except TimeoutError:
            raise Broken(f"{verb} took longer than {PATIENCE:.0f} s") from None
        finally:
            if process.returncode is None:  # too slow, or we were told to stop
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise Broken(f"{verb} ended with {process.returncode}: {complaints.decode()[-2000:]}")
        report: dict[str, Any] = json.loads(told.decode().splitlines()[-1])
        return report

    def _command(self, contestant: str, verb: str, url: str, count: int) -> list[str]:
        kind = "_runs" if verb in VERBS_OF_RUNS else "_http" if verb == "http" else ""
        module = f"bench.contestants.{contestant}{kind}"
        return [str(self._python), "-m", module, verb, "--url", url, "--count", str(count)]


def rotated(names: list[str], turn: int) -> list[str]:
    """Everybody goes first equally often."""
    cut = turn % len(names) if names else 0
    return names[cut:] + names[:cut]


async def in_turns(
    columns: Iterable[str], repetition: int, reach: Callable[[str], Awaitable[float]]
) -> dict[str, float]:
    """What one contestant reaches in several ways, which also take turns in going first."""
    names = list(columns)
    reached = {column: await reach(column) for column in rotated(names, repetition)}
    return {column: reached[column] for column in names}


def percentiles(milliseconds: list[float]) -> dict[str, float]:
    if len(milliseconds) < 2:
        return {"p50": milliseconds[0], "p99": milliseconds[0]}
    cuts = statistics.quantiles(milliseconds, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98]}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _brief(reached: dict[str, float]) -> str:
    return ", ".join(f"{column} {value:,.2f}" for column, value in reached.items())
