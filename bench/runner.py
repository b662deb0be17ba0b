"""Runs the contestants: each repetition measures every contestant once, in rotating order, each in its own process.

A contestant that fails is left out of the rest of that measure and named in the report.
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
from bench.processes import ProcessFailed, drain_together
from bench.server import NoSpace, Server

TIMEOUT = 1200.0  # seconds
# A contestant has a module for jobs and one for workflows; these verbs are in the second.
VERBS_OF_RUNS = frozenset({"prepare_chains", "prepare_history", "chains", "fan_out", "lone"})
PROCESSES = {"one": 1, "two": 2}
HISTORY_BYTES = 2_500  # disk space for each job of the history, WAL included


class Runner:
    def __init__(self, server: Server, python: Path, plan: Plan) -> None:
        self._server, self._python, self._plan = server, python, plan
        self.failures: list[str] = []
        self._history_url: str | None = None  # database with the history, once it is filled
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
                    numbers = await self._measure_once(measure, contestant, repetition)
                except ProcessFailed as error:
                    self.failures.append(f"{measure} {contestant}: {error}")
                    entrants = [name for name in entrants if name != contestant]
                    continue
                _log(f"{measure} {repetition + 1}/{self._plan.repeat} {contestant}: {_summary(numbers)}")
                for column, value in numbers.items():
                    values.setdefault((contestant, column), []).append(value)
        others.append(await machine.others())
        self.others[measure] = statistics.fmean(others)
        rows = [
            Series(measure=measure, contestant=name, column=column, values=tuple(repetitions))
            for (name, column), repetitions in values.items()
        ]
        return sorted(rows, key=lambda series: self._plan.contestants.index(series.contestant))

    async def _measure_once(self, measure: Measure, contestant: str, repetition: int) -> dict[str, float]:
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
                report = await self._call(contestant, measure, await self._server.fresh(contestant), count)
                return {column: value for column, value in report.items() if column != "settings"}
            case Measure.HISTORY:
                urls = {"empty": await self._used(contestant, count), "full": await self._history(contestant, count)}
                return await in_turns(urls, repetition, lambda column: self._chains(contestant, count, urls[column]))

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
        """Return the URL of a database in which chains have run once, like the one with the history."""
        url = await self._server.fresh(contestant)
        await self._chains(contestant, count, url)
        return url

    async def _history(self, contestant: str, count: int) -> str:
        """Return the URL of the database with the history. It is filled once: repetitions add little to it."""
        if self._history_url is None:
            try:
                self._server.ensure_space(self._plan.history * HISTORY_BYTES)
            except NoSpace as error:
                raise ProcessFailed(str(error)) from None
            self._history_url = url = await self._server.fresh(f"{contestant}_history")
            await self._call(contestant, "prepare_chains", url, 0)  # creates the tables
            await self._call(contestant, "prepare_history", url, self._plan.history)
            await self._server.settle(url)
            await self._chains(contestant, count, url)
            _log(f"history: {self._plan.history:,} jobs, {await self._server.size(url) / 2**30:.1f} GB")
        return self._history_url

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
            output, errors = await asyncio.wait_for(process.communicate(), TIMEOUT)
        except TimeoutError:
            raise ProcessFailed(f"{verb} took longer than {TIMEOUT:.0f} s") from None
        finally:
            if process.returncode is None:  # timed out or cancelled
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise ProcessFailed(f"{verb} exited with {process.returncode}: {errors.decode()[-2000:]}")
        report: dict[str, Any] = json.loads(output.decode().splitlines()[-1])
        return report

    def _command(self, contestant: str, verb: str, url: str, count: int) -> list[str]:
        kind = "_runs" if verb in VERBS_OF_RUNS else "_http" if verb == "http" else ""
        module = f"bench.contestants.{contestant}{kind}"
        return [str(self._python), "-m", module, verb, "--url", url, "--count", str(count)]


def rotated(names: list[str], turn: int) -> list[str]:
    """Rotate the names, so that over the turns each is first equally often."""
    cut = turn % len(names) if names else 0
    return names[cut:] + names[:cut]


async def in_turns(
    columns: Iterable[str], repetition: int, measure: Callable[[str], Awaitable[float]]
) -> dict[str, float]:
    """Measure each column of one contestant, in rotating order; return the values by column."""
    names = list(columns)
    values = {column: await measure(column) for column in rotated(names, repetition)}
    return {column: values[column] for column in names}


def percentiles(milliseconds: list[float]) -> dict[str, float]:
    if len(milliseconds) < 2:
        return {"p50": milliseconds[0], "p99": milliseconds[0]}
    cuts = statistics.quantiles(milliseconds, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98]}


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _summary(values: dict[str, float]) -> str:
    return ", ".join(f"{column} {value:,.2f}" for column, value in values.items())
