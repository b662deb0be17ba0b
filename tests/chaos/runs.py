"""Workflows for chaos tests whose results are known in advance, and invariants of the tables once all runs have ended.

A `Design` is a workflow with the expected letters of its runs, whatever is killed meanwhile. `Runs` starts runs and
compares the tables with the designs and with INVARIANTS.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.chaos.harness import Inbox, eventually
from tests.keys import KEYS
from windlass import Windlass
from windlass.engine.runs.start import RunSpec
from windlass.settings import Settings

RUNLOAD = "tests.chaos.runload:app"
PATIENT = {"max_attempts": 1000, "retry": {"kind": "constant", "base": 0.1}}  # no kill uses up the attempts


@dataclass(frozen=True)
class Design:
    """A workflow and the expected result of its runs. `copies` are the numbers of jobs or child runs of each step."""

    document: Mapping[str, Any]
    letters: str
    copies: Sequence[int]
    state: str = "completed"

    @property
    def name(self) -> str:
        return str(self.document["name"])


def job(type_: str = "step", needs: Any = None, **words: Any) -> dict[str, Any]:
    wanted = {} if needs is None else {"needs": needs}
    return {"job": f"chaos.{type_}.v1", **PATIENT, **wanted, **words}


def design(
    name: str, tasks: Mapping[str, Any], letters: str, copies: Sequence[int], state: str = "completed", **words: Any
) -> Design:
    return Design({"name": name, "tasks": tasks, **words}, letters, copies, state)


def small(name: str, queue: str) -> Design:
    """Return a design with a chain, a fan-out, a join and a final step, all in the given queue."""
    tasks = {
        "one": job(queue=queue),
        "two": job(needs=["one"], queue=queue),
        "each": job(needs=["two"], parallel=4, queue=queue),
        "join": job(needs=["each"], queue=queue),
        "last": job(needs=["join"], queue=queue),
        "clean": job(final=True, queue=queue),
    }
    return design(name, tasks, "ssssss", (1, 1, 4, 1, 1, 1))


CHAIN = design(
    "chain",
    {"a": job(), "b": job(needs=["a"]), "c": job(needs=["b"]), "d": job(needs=["c"])},
    "ssss",
    (1, 1, 1, 1),
)
DIAMOND = design(
    "diamond",
    {"a": job(), "b": job(needs=["a"]), "c": job(needs=["a"]), "d": job(needs=["b", "c"])},
    "ssss",
    (1, 1, 1, 1),
)
FAN = design(
    "fan",
    {
        "list": job("list"),
        "each": job(needs=["list"], foreach="list.files"),
        "join": job(needs=["each"]),
        "clean": job(final=True),
    },
    "ssss",
    (1, 5, 1, 1),
)
CAPPED = design(
    "capped",
    {"each": job(parallel=5, concurrency=2), "join": job(needs=["each"])},
    "ss",
    (5, 1),
)
HANDLED = design(
    "handled",
    {
        "a": job(),
        "bad": job("fail", ["a"]),
        "cure": job(needs={"bad": "failure"}),
        "next": job(needs=["bad"]),
        "end": job(needs={"cure": "complete", "next": "complete"}),
    },
    "sfsks",
    (1, 1, 1, 0, 1),
)
UNHANDLED = design(
    "unhandled",
    {"a": job(), "bad": job("fail", ["a"]), "next": job(needs=["bad"]), "clean": job(final=True)},
    "sfks",
    (1, 1, 0, 1),
    "failed",
)
ODD = design(
    "odd",
    {
        "list": job("list"),
        "each": job("odd", ["list"], foreach="list.files"),
        "join": job(needs=["each"]),
        "mend": job(needs={"each": "failure"}),
    },
    "sfks",
    (1, 5, 0, 1),
)
JUDGED = design(
    "judged",
    {
        "list": job("list"),
        "told": job(needs=["list"], input={"item": "{{tasks.list.body.files}}"}),
        "bad": job("fail", ["told"]),
        "care": job(needs=["bad"], **{"if": "failure()"}),
        "calm": job(needs=["bad"], **{"if": "tasks.bad.status == 'completed'"}),
    },
    "ssfsk",
    (1, 1, 1, 1, 0),
)
FLAKY = design("flaky", {"a": job("flaky"), "b": job(needs=["a"])}, "ss", (1, 1))
SLEEPY = design(
    "sleepy",
    {"a": job(), "nap": {"needs": ["a"], "sleep": "50ms"}, "b": job(needs=["nap"]), "doze": {"sleep": "50ms"}},
    "ssss",
    (1, 0, 1, 0),
)
RACE = design(
    "race",
    {"a": job(), "b": {"sleep": "50ms"}, "first": job(needs=["a", "b"], join="any"), "end": job(needs=["first"])},
    "ssss",
    (1, 0, 1, 1),
)
LIMITED = design("limited", {"a": job(), "b": job(needs=["a"])}, "ss", (1, 1), concurrency=10)
PARENT = design(
    "parent",
    {"a": job(), "below": {"needs": ["a"], "workflow": "diamond"}, "b": job(needs=["below"])},
    "sss",
    (1, 1, 1),
)
BROOD = design(
    "brood",
    {
        "below": {"workflow": "sleepy", "parallel": 3},
        "held": {"workflow": "limited"},
        "b": job(needs=["below", "held"]),
    },
    "sss",
    (3, 1, 1),
)
SORROW = design(
    "sorrow",
    {"below": {"workflow": "unhandled"}, "b": job(needs=["below"]), "cure": job(needs={"below": "failure"})},
    "fks",
    (1, 0, 1),
)
GRANDPARENT = design("grandparent", {"a": job(), "below": {"needs": ["a"], "workflow": "parent"}}, "ss", (1, 1))
MIXED = (
    *(CHAIN, DIAMOND, FAN, CAPPED, HANDLED, UNHANDLED, ODD, JUDGED, FLAKY, SLEEPY, RACE, LIMITED),
    *(PARENT, BROOD, SORROW, GRANDPARENT),
)

# Each query returns the rows that violate its sentence.
INVARIANTS = {
    "every run has ended": "select id, state, steps from windlass.run where state in ('pending', 'running')",
    "every step of an ended run has ended": "select id, state, steps from windlass.run where steps ~ '[.a]'",
    "an ended run has an end time": "select id from windlass.run where finished_at is null",
    "every job has ended": """select id, run_id, step, status, leased_by from workflow.workflow_run
        where status in ('pending', 'leased')""",
    "every end of a job was reported to its run": """select id, run_id, step, status from workflow.workflow_run
        where not settled""",
    "no timer is left": "select * from windlass.timer",
    "no notice is left": "select * from windlass.notice",
    "no job is without its run": """select id, run_id from workflow.workflow_run j
        where run_id is not null and not exists (select from windlass.run r where r.id = j.run_id)""",
    "no run is without its parent": """select id, parent_id from windlass.run c
        where parent_id is not null and not exists (select from windlass.run p where p.id = c.parent_id)""",
    "each end of a job is recorded once per epoch": """
        select j.id, j.status, j.epoch, e.* from workflow.workflow_run j cross join lateral (
            select count(*) filter (where event_type = 'created') as created,
                   count(*) filter (where event_type = 'succeeded') as succeeded,
                   count(*) filter (where event_type = 'failed') as failed,
                   count(*) filter (where event_type = 'cancelled') as cancelled
              from workflow.workflow_event where workflow_id = j.id) as e
         where succeeded > epoch + 1 or created > epoch + 1 or created < 1
            or epoch = 0 and (succeeded, failed) <> ((status = 'succeeded')::int, (status = 'failed')::int)""",
    "each run ended once per round": """
        select r.id, r.state, r.round, e.* from windlass.run r cross join lateral (
            select count(*) filter (where word in ('completed', 'failed', 'cancelled', 'timeout')) as ended,
                   count(*) filter (where word = 'running') as begun
              from windlass.event where run_id = r.id and step is null) as e
         where ended <> round + 1 or begun > round + 1""",
    "the letters match the states of the jobs": """
        select * from (
            select r.id, r.state, r.steps, j.step, substr(r.steps, j.step + 1, 1) as letter, count(*) as jobs,
                   count(*) filter (where status = 'succeeded') as succeeded,
                   count(*) filter (where status = 'failed') as failed
              from workflow.workflow_run j join windlass.run r on r.id = j.run_id group by r.id, j.step) as s
         where not case letter when 's' then succeeded = jobs when 'f' then failed > 0 when 't' then failed > 0
                               when 'c' then failed = 0 else false end""",
    "the letters match the states of the child runs": """
        select * from (
            select p.id, p.state, p.steps, c.parent_step, substr(p.steps, c.parent_step + 1, 1) as letter,
                   count(*) as runs, count(*) filter (where c.state = 'completed') as completed,
                   count(*) filter (where c.state in ('failed', 'timeout')) as failed
              from windlass.run c join windlass.run p on p.id = c.parent_id where c.parent_round = p.round
             group by p.id, c.parent_step) as s
         where not case letter when 's' then completed = runs when 'f' then failed > 0 when 't' then failed > 0
                               when 'c' then failed = 0 else false end""",
    "the counters of a fan-out are those of its rows": """
        select * from (
            select r.id, r.steps, f.key::int as step, array(select jsonb_array_elements_text(f.value)::int) as fan,
                   v.document -> 'tasks' -> f.key::int ? 'workflow' as below, (
                     select array[count(*), count(*) filter (where ended in ('succeeded', 'completed')),
                                  count(*) filter (where ended in ('failed', 'timeout')),
                                  count(*) filter (where ended = 'cancelled')]::int[]
                       from (select status as ended from workflow.workflow_run where run_id = r.id and step = f.key::int
                             union all
                             select state from windlass.run where parent_id = r.id and parent_step = f.key::int
                                and parent_round = r.round) as copy) as copies
              from windlass.run r join windlass.version v on v.id = r.version_id
             cross join lateral jsonb_each(r.fans) as f) as x
         where (fan[3], fan[5]) <> (copies[2], copies[4]) or fan[2] - copies[1] <> fan[4] - copies[3]
            or fan[2] <> copies[1] and not below""",  # a child run that was refused has no row and counts as failed
    "no job or child run is created after its run has ended": """
        select r.id, r.state, r.steps, j.step, j.created_at, r.finished_at from windlass.run r
          join (select run_id, step, created_at, epoch as round from workflow.workflow_run union all
                select parent_id, parent_step, created_at, parent_round from windlass.run) as j on j.run_id = r.id
         where r.round = j.round and j.created_at > r.finished_at""",
    "every recorded success was executed": """select id, run_id, step from workflow.workflow_run j
        where run_id is not null and status = 'succeeded'
          and not exists (select from effects e where e.job_id = j.id)""",
}

AS_MADE = """
select w.name, r.state, r.steps, count(*) from windlass.run r
  join windlass.version v on v.id = r.version_id join windlass.workflow w on w.id = v.workflow_id group by 1, 2, 3"""

COPIES = """
select w.name, s.step, s.copies, count(*) from windlass.run r
  join windlass.workflow w on w.id = r.workflow_id
 cross join lateral (
   select n - 1 as step, (select count(*) from workflow.workflow_run where run_id = r.id and step = n - 1)
                       + (select count(*) from windlass.run where parent_id = r.id and parent_step = n - 1) as copies
     from generate_series(1, length(r.steps)) as n) as s
 group by 1, 2, 3"""


class Runs(Inbox):
    """A plain client of the tables of runs."""

    async def prepare(self) -> None:
        await super().prepare()
        await self.execute("create unique index on effects (job_id, fence)")

    async def deploy(self, *designs: Design) -> None:
        async with self._app() as app:
            await app.deploy(*[design.document for design in designs])

    async def start(self, name: str, count: int = 1, **words: Any) -> list[UUID]:
        async with self._app() as app:
            return [run.id for run in await app.start_many(name, [RunSpec(**words)] * count)]

    async def start_mixed(self, count: int, designs: Sequence[Design] = MIXED) -> None:
        """Deploy the designs and start `count` runs in total, equally many of each."""
        await self.deploy(*designs)
        async with self._app() as app:
            for n, each in enumerate(designs):
                share = count // len(designs) + (n < count % len(designs))
                await app.start_many(each.name, [RunSpec()] * share)

    def _app(self) -> Windlass:
        return Windlass(self.url, settings=Settings(notify=False, master_keys=KEYS))

    async def ended(self) -> int:
        """Return the number of ended runs without a parent."""
        return int(
            await self.value(
                "select count(*) from windlass.run where parent_id is null and state not in ('pending', 'running')"
            )
        )

    async def quiet(self) -> bool:
        """Return whether all runs and jobs have ended and are settled."""
        return not await self.value(
            """select exists (select from windlass.run where state in ('pending', 'running') or steps ~ '[.a]')
                   or exists (select from workflow.workflow_run where status in ('pending', 'leased') or not settled)
                   or exists (select from windlass.notice)"""
        )

    async def all_quiet(self, *, within: float) -> None:
        try:
            await eventually(self.quiet, "every run had ended", within=within, every=0.1)
        except AssertionError as late:
            for sentence, query in INVARIANTS.items():
                if found := await self.fetch(query):
                    late.add_note(f"violated: {sentence}: {len(found)}, such as {found[:3]}")
            raise

    async def assert_sound(self) -> None:
        """Check the invariants of a database in which all runs and jobs have ended."""
        for sentence, query in INVARIANTS.items():
            found = await self.fetch(query)
            assert not found, f"violated: {sentence}: {len(found)}, such as {found[:5]}"
        assert await self.stale_effects() == []

    async def assert_as_designed(self, *designs: Design, roots: int | None = None) -> None:
        """Check that each run ended as its design says, with the expected number of jobs and child runs."""
        await self.assert_sound()
        known = {design.name: design for design in designs}
        for name, state, letters, count in await self.fetch(AS_MADE):
            expected = known[name]
            assert (state, letters) == (expected.state, expected.letters), f"{count} runs of {name}"
        for name, step, copies, count in await self.fetch(COPIES):
            assert copies == known[name].copies[step], f"step {step} of {count} runs of {name}"
        if roots is not None:
            assert await self.ended() == roots
