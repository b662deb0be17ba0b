"""`app.adopt`: what a scheduler in the process did, the durable engine does, or it says why not."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from tests.runtime.conftest import Working, eventually
from windlass import InvalidWorkflow, Windlass
from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.definition.parser import parse
from windlass.core.jobs.job import TERMINAL
from windlass.core.workflows.workflow import ApiTrigger, CronTrigger, Workflow
from windlass.cron import (
    CLASSIC,
    FULL,
    CircuitBreaker,
    Condition,
    Cron,
    Failure,
    FakeClock,
    Job,
    JobResult,
    Observer,
    Skip,
    circuit_breaker,
    delay_if_running,
    jitter,
    job_context,
    max_concurrent,
    max_concurrent_skip,
    recover,
    retry_with_backoff,
    skip_if_running,
    timeout,
    workflow_execution_id,
)
from windlass.cron import Workflow as CronWorkflow
from windlass.runtime.adoption import adopt

SUCCESS, FAILURE, SKIPPED = JobResult.SUCCESS, JobResult.FAILURE, JobResult.SKIPPED
WORDS = {"succeeded": SUCCESS, "failed": FAILURE, "timed out": FAILURE, "skipped": SKIPPED}
MILLISECOND = timedelta(milliseconds=1)
Edges = Iterable[tuple[str, str, Condition]]  # parent, child


async def succeed() -> None:
    pass


def fail_by_word() -> Failure:
    return Failure("broken")


async def fail() -> None:
    raise ValueError("broken")


def workflow(name: str, jobs: dict[str, Job], edges: Edges, *, spec: str = "@triggered") -> CronWorkflow:
    """The first job is the root."""
    made = CronWorkflow(name)
    steps = {step: made.step(step, "@triggered" if n else spec, job) for n, (step, job) in enumerate(jobs.items())}
    for parent, child, condition in edges:
        steps[child].after(parent, condition)
    return made


def cron_with(*workflows: CronWorkflow, **options: Any) -> Cron:
    cron = Cron(clock=FakeClock(), **options)
    for made in workflows:
        cron.add_workflow(made)
    return cron


async def in_process(cron: Cron, roots: Iterable[str]) -> list[dict[str, JobResult]]:
    """What becomes of the entries when each of these is triggered."""
    names = {entry.id: str(entry.name) for entry in cron.entries()}
    async with cron:
        ids = [cron.trigger(root) for root in roots]
        await cron.done()
    found = [cron.workflow_status(id_) for id_ in ids]
    return [{names[id_]: result for id_, result in one.results.items()} for one in found if one is not None]


async def durably(app: Windlass, names: Iterable[str]) -> list[dict[str, JobResult]]:
    runs = [await app.start(name) for name in names]
    results = [await run.wait(timeout=60) for run in runs]
    return [{step: WORDS[word] for step, word in result.steps.items()} for result in results]


async def live(app: Windlass, name: str) -> Workflow:
    return parse((await app.get_workflow(name)).document)


def refusal(cron: Cron, app: Windlass | None = None) -> list[tuple[str, str]]:
    """Why it cannot be moved; nothing was."""
    app = app or Windlass("postgres://nowhere/at_all")
    types, entries = app.handlers.types(), cron.entries()
    with pytest.raises(InvalidWorkflow) as raised:
        app.adopt(cron)
    assert app.handlers.types() == types
    assert cron.entries() == entries
    return raised.value.errors


# The same in both engines


FAILS = [
    pytest.param("root", id="root fails"),
    pytest.param("left", id="left fails"),
    pytest.param("", id="nothing fails"),
]


@pytest.mark.parametrize("broken", FAILS)
@pytest.mark.parametrize("condition", list(Condition), ids=str)
async def test_each_condition_means_the_same(
    app: Windlass, working: Working, condition: Condition, broken: str
) -> None:
    """root -> left -> joined, root -> right -> joined, and after that a last one on `complete`."""
    jobs: dict[str, Job] = {
        name: fail if name == broken else succeed for name in ("root", "left", "right", "joined", "last")
    }
    edges = [
        ("root", "left", Condition.SUCCESS),
        ("root", "right", condition),
        ("left", "joined", condition),
        ("right", "joined", Condition.COMPLETE),
        ("joined", "last", Condition.SKIPPED),
    ]
    cron = cron_with(workflow("shape", jobs, edges))
    here = await in_process(cron, ["root"])
    app.adopt(cron)
    async with working(app):
        assert await durably(app, ["shape"]) == here


async def test_arguments_and_what_the_parents_returned_go_along(app: Windlass, working: Working) -> None:
    seen: list[object] = []

    async def extract(day: str, *, limit: int) -> dict[str, object]:
        return {"day": day, "limit": limit}

    def odd() -> object:
        return object()  # not JSON: left behind

    async def load() -> None:
        context = job_context()
        assert context is not None
        seen.append(dict(context.upstream))

    made = CronWorkflow("handed-on")
    made.step("extract", "@triggered", extract, args=["monday"], kwargs={"limit": 3})
    made.step("odd", "@triggered", odd, after="extract")
    made.step("load", "@triggered", load, after=["extract", "odd"])
    app.adopt(cron_with(made))
    async with working(app):
        assert await durably(app, ["handed-on"]) == [{"extract": SUCCESS, "odd": SUCCESS, "load": SUCCESS}]
    assert seen == [{"extract": {"day": "monday", "limit": 3}, "odd": None}]


def drawn(rng: random.Random, n: int) -> CronWorkflow:
    """A graph with one root; steps fail in two ways or skip themselves; some pairs have two edges."""
    jobs: dict[str, Job] = {
        f"g{n}_{k}": rng.choice([succeed, succeed, fail, fail_by_word, nothing_to_do]) for k in range(rng.randint(2, 7))
    }
    names = list(jobs)
    pairs = [
        (parent, child) for k, child in enumerate(names) if k for parent in rng.choices(names[:k], k=rng.randint(1, 3))
    ]
    made = workflow(f"g{n}", jobs, {(*pair, rng.choice(list(Condition))) for pair in pairs})
    if rng.random() < 0.3:
        made.step(f"g{n}_final", "@triggered", rng.choice([succeed, fail])).final()
    return made


@pytest.mark.parametrize("seed", [1, 2], ids=lambda seed: f"seed {seed}")
async def test_any_graph_ends_the_same(app: Windlass, working: Working, seed: int) -> None:
    rng = random.Random(seed)
    graphs = [drawn(rng, n) for n in range(200)]
    cron = cron_with(*graphs, retention=0)
    here = await in_process(cron, [made.steps[0].name for made in graphs])
    assert len(here) == len(graphs)
    assert set().union(*(one.values() for one in here)) == {SUCCESS, FAILURE, SKIPPED}
    app.adopt(cron)
    async with working(app):
        assert await durably(app, [made.name for made in graphs]) == here


async def test_entries_that_were_connected_by_hand_are_a_workflow_named_after_the_root(
    app: Windlass, working: Working
) -> None:
    cron = Cron(clock=FakeClock())
    cron.add("@triggered", fail, name="fetch")
    cron.add("@triggered", succeed, name="alarm")
    cron.add_dependency("alarm", "fetch", "failure")
    here = await in_process(cron, ["fetch"])
    assert app.adopt(cron) == ["fetch"]
    async with working(app):
        assert await durably(app, ["fetch"]) == here == [{"fetch": FAILURE, "alarm": SUCCESS}]
    assert {"fetch.fetch", "fetch.alarm"} <= set(app.handlers.types())


# What is published


async def test_a_workflow_is_published_with_its_steps_types_and_trigger(app: Windlass) -> None:
    made = CronWorkflow("etl")
    made.step("extract", "0 2 * * *", succeed, missed="all", tags=["nightly"])
    made.step("load", "@triggered", succeed).after("extract").after("extract", "complete")
    made.step("cleanup", "@triggered", succeed).final()
    cron = cron_with(made, location="Europe/Berlin")
    assert app.adopt(cron) == ["etl"]
    assert cron.entries() == []
    (published,) = await app.publish()
    assert published.created
    stored = await live(app, "etl")
    assert stored.trigger == CronTrigger("0 2 * * *", "Europe/Berlin", catch_up=CatchUp.ALL)
    assert {step.max_attempts for step in stored.steps} == {3}  # a worker may die; failures are final all the same
    assert [(step.name, getattr(step.action, "type", None)) for step in stored.steps] == [
        ("extract", "etl.extract"),
        ("load", "etl.load"),
        ("cleanup", "etl.cleanup"),
    ]
    assert [[(edge.parent, edge.condition) for edge in step.edges] for step in stored.steps] == [
        [],
        [("extract", "success"), ("extract", "complete")],
        [("extract", "complete"), ("load", "complete")],
    ]
    assert await app.publish() == []


async def test_a_plain_entry_is_a_workflow_of_one_step(app: Windlass, working: Working) -> None:
    cron = Cron()
    seen: list[str] = []
    cron.add("TZ=Asia/Tokyo 30 9 * * MON-FRI", lambda: seen.append(workflow_execution_id()), name="daily.report")
    cron.add("@triggered", fail, name="by-hand")
    assert app.adopt(cron) == ["daily.report", "by-hand"]
    async with working(app):
        run = await app.start("daily.report")
        assert (await run.wait(timeout=30)).steps == {"run": "succeeded"}
        assert (await (await app.start("by-hand")).wait(timeout=30)).steps == {"run": "failed"}
    assert seen == [str(run.id)]
    assert "cron.daily.report" in app.handlers.types()
    assert (await live(app, "daily.report")).trigger == CronTrigger(
        "30 9 * * MON-FRI", "Asia/Tokyo", catch_up=CatchUp.NONE
    )
    assert (await live(app, "by-hand")).trigger == ApiTrigger()


async def test_an_entry_alone_keeps_its_starts_apart_by_the_rules_of_runs(app: Windlass) -> None:
    cron = Cron(wrappers=[recover()])
    cron.add("@hourly", succeed, name="skips", wrappers=[skip_if_running()])
    cron.add("@hourly", succeed, name="waits", wrappers=[delay_if_running()])
    cron.add("@triggered", succeed, name="waits-by-hand", wrappers=[delay_if_running()])
    app.adopt(cron)
    await app.publish()
    skips, waits, by_hand = [await live(app, name) for name in ("skips", "waits", "waits-by-hand")]
    assert isinstance(skips.trigger, CronTrigger)
    assert (skips.trigger.overlap, skips.concurrency) == (Overlap.SKIP, None)
    assert isinstance(waits.trigger, CronTrigger)
    assert (waits.trigger.overlap, waits.concurrency) == (Overlap.ALLOW, 1)
    assert by_hand.concurrency == 1


@pytest.mark.parametrize("spec", ["0 0 13 * *", "0 0 * * FRI", "0 12 */2 * 1", "@daily"])
def test_day_fields_that_mean_the_same_are_moved(spec: str) -> None:
    cron = Cron()
    cron.add(spec, succeed, name="entry")
    assert Windlass("postgres://nowhere/at_all").adopt(cron) == ["entry"]


def test_a_scheduler_that_reads_days_as_stored_crons_do_is_moved() -> None:
    cron = Cron(dialect=CLASSIC)
    cron.add("0 0 13 * FRI", succeed, name="entry")
    assert Windlass("postgres://nowhere/at_all").adopt(cron) == ["entry"]


def test_an_empty_scheduler_is_nothing_to_adopt() -> None:
    assert Windlass("postgres://nowhere/at_all").adopt(Cron()) == []


# Jobs and their wrappers


async def test_every_step_of_a_run_sees_its_id(app: Windlass, working: Working) -> None:
    seen: list[tuple[str, str]] = []

    async def note() -> None:
        context = job_context()
        assert context is not None
        seen.append((context.name, workflow_execution_id()))

    app.adopt(cron_with(workflow("ids", {"a": note, "b": note}, [("a", "b", Condition.SUCCESS)])))
    async with working(app):
        run = await app.start("ids")
        await run.wait(timeout=30)
    assert seen == [("a", str(run.id)), ("b", str(run.id))]


async def test_wrappers_work_around_the_job_in_their_order(app: Windlass, working: Working) -> None:
    tries: list[str] = []

    def told(name: str) -> Callable[[Any], Any]:
        def wrapper(call: Any) -> Any:
            async def around() -> Any:
                tries.append(name)
                return await call()

            return around

        return wrapper

    def flaky() -> None:
        tries.append(threading.current_thread().name.partition("_")[0])
        if len(tries) < 4:
            raise ValueError("not yet")

    retry = retry_with_backoff(3, initial=MILLISECOND)
    wrappers = [jitter(MILLISECOND), retry, told("inner"), timeout(timedelta(seconds=5)), recover()]
    cron = Cron(wrappers=[told("outer")])
    cron.add("@triggered", flaky, name="flaky", wrappers=wrappers)
    app.adopt(cron)
    async with working(app):
        assert (await (await app.start("flaky")).wait(timeout=30)).steps == {"run": "succeeded"}
    assert tries == ["outer", "inner", "windlass-job", "inner", "windlass-job"]


async def test_a_job_that_takes_longer_than_its_wrapper_allows_fails_and_is_told(
    app: Windlass, working: Working
) -> None:
    told = threading.Event()

    def endless() -> None:
        context = job_context()
        assert context is not None
        if context.wait_cancelled(30):
            told.set()

    cron = Cron()
    cron.add("@triggered", endless, name="endless", wrappers=[timeout(20 * MILLISECOND)])
    app.adopt(cron)
    async with working(app):
        run = await app.start("endless")
        assert (await run.wait(timeout=30)).steps == {"run": "failed"}
        assert await asyncio.to_thread(told.wait, 10)
        (job,) = (await app.list(type_="cron.endless")).jobs
        assert (await app.get(job.id)).errors[-1]["type"] == "JobTimedOut"


@pytest.mark.parametrize("wrappers", [[], [recover()]], ids=["bare", "recovered"])
async def test_a_failure_is_final_and_tried_once(app: Windlass, working: Working, wrappers: list[Any]) -> None:
    calls: list[int] = []

    def broken() -> None:
        calls.append(1)
        raise ValueError("broken")

    cron = Cron()
    cron.add("@triggered", broken, name="broken", wrappers=wrappers)
    app.adopt(cron)
    async with working(app):
        assert (await (await app.start("broken")).wait(timeout=30)).steps == {"run": "failed"}
        lone = await app.submit("cron.broken")  # outside of a run `recover` hides it from wrappers only, too
        assert await eventually(partial(ended, app, lone)) == "failed"
    assert len(calls) == 2


async def ended(app: Windlass, id_: UUID) -> str | None:
    status = (await app.get(id_)).status
    return status if status in TERMINAL else None


async def test_a_job_that_waited_for_something_cancelled_fails_once(app: Windlass, working: Working) -> None:
    calls: list[int] = []

    async def cut_off() -> None:
        calls.append(1)
        raise asyncio.CancelledError

    cron = Cron()
    cron.add("@triggered", cut_off, name="cut-off")
    app.adopt(cron)
    async with working(app):
        assert (await (await app.start("cut-off")).wait(timeout=30)).steps == {"run": "failed"}
    assert calls == [1]


async def test_what_a_job_returns_need_not_be_storable(app: Windlass, working: Working) -> None:
    cron = Cron()
    cron.add("@triggered", object, name="returns")
    app.adopt(cron)
    async with working(app):
        assert (await (await app.start("returns")).wait(timeout=30)).value is None


async def test_a_cancelled_run_tells_its_job(app: Windlass, working: Working) -> None:
    began, told = threading.Event(), threading.Event()

    def patient() -> None:
        context = job_context()
        assert context is not None
        began.set()
        if context.wait_cancelled(30):
            told.set()

    cron = Cron()
    cron.add("@triggered", patient, name="patient")
    app.adopt(cron)
    async with working(app):
        run = await app.start("patient")
        assert await asyncio.to_thread(began.wait, 20)
        await run.cancel()
        assert await asyncio.to_thread(told.wait, 20)


def nothing_to_do() -> None:
    raise Skip("nothing to do")


async def test_a_job_that_skips_itself_is_a_skipped_step(app: Windlass, working: Working) -> None:
    cron = Cron()
    cron.add("@triggered", nothing_to_do, name="idle")
    app.adopt(cron)
    async with working(app):
        run = await app.start("idle")
        assert (await run.wait(timeout=30)).steps == {"run": "skipped"}
        (job,) = (await app.list(type_="cron.idle")).jobs
        (error,) = (await app.get(job.id)).errors
        assert (error["type"], error["message"]) == ("Skipped", "nothing to do")


# What cannot be moved


BOTH_DAYS = "either day field"


@pytest.mark.parametrize(
    ("spec", "options", "says"),
    [
        ("@every 90s", {}, "counts from the start of this process"),
        ("0 0 13 * FRI", {}, BOTH_DAYS),
        ("0 0 1-31 * FRI", {}, BOTH_DAYS),
        ("H 2 * * *", {"dialect": FULL}, "without years and H"),
        ("0 0 0 1 1 * 2031", {"dialect": FULL}, "without years and H"),
        ("0 0 1 1 * 2031", {"dialect": FULL}, "without years and H"),
    ],
)
def test_times_that_would_mean_something_else_are_refused(spec: str, options: dict[str, Any], says: str) -> None:
    cron = Cron(**options)
    cron.add(spec, succeed, name="entry")
    ((where, what),) = refusal(cron)
    assert where == "entry"
    assert says in what


def test_a_zone_without_a_name_is_refused() -> None:
    with open("/usr/share/zoneinfo/Europe/Berlin", "rb") as data:
        zone = ZoneInfo.from_file(data)
    cron = Cron(location=zone)
    cron.add("@daily", succeed, name="entry")
    ((_, what),) = refusal(cron)
    assert "no name" in what


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"run_once": True}, "app.start"),
        ({"run_immediately": True}, "app.start"),
        ({"paused": True}, "resume it"),
        ({"missed": "once", "grace": timedelta(hours=1)}, "grace"),
        ({"max_instances": 2}, "max_instances counts starts"),
        ({"wrappers": [max_concurrent(2)]}, "max_concurrent counts starts"),
        ({"wrappers": [max_concurrent_skip(2)]}, "max_concurrent_skip counts starts"),
        ({"wrappers": [circuit_breaker(3, timedelta(minutes=1))]}, "circuit_breaker counts starts"),
        ({"wrappers": [CircuitBreaker(3, timedelta(minutes=1))]}, "circuit_breaker counts starts"),
    ],
)
def test_options_that_have_no_counterpart_are_refused(options: dict[str, Any], says: str) -> None:
    cron = Cron(clock=FakeClock())
    cron.add("@daily", succeed, name="entry", **options)
    ((where, what),) = refusal(cron)
    assert where == "entry"
    assert says in what


def test_a_one_off_is_refused() -> None:
    clock = FakeClock()
    cron = Cron(clock=clock)
    cron.add(clock.now() + timedelta(hours=1), succeed, name="entry")
    ((where, what),) = refusal(cron)
    assert where == "entry"
    assert "app.start" in what


@pytest.mark.parametrize("wrapper", [skip_if_running(), delay_if_running()])
def test_starts_of_a_single_step_cannot_be_kept_apart(wrapper: Any) -> None:
    made = CronWorkflow("pair")
    made.step("a", "@daily", succeed)
    made.step("b", "@triggered", succeed, wrappers=[wrapper]).after("a")
    ((where, what),) = refusal(cron_with(made))
    assert where == "pair.b"
    assert "several workers" in what


def test_grace_without_missed_runs_says_nothing() -> None:
    cron = Cron()
    cron.add("@daily", succeed, name="entry", grace=timedelta(hours=1))
    assert Windlass("postgres://nowhere/at_all").adopt(cron) == ["entry"]


def test_several_roots_and_scheduled_children_are_refused() -> None:
    made = workflow("two", {"a": succeed, "b": succeed, "c": succeed}, [("a", "c", Condition.SUCCESS)], spec="@daily")
    made.steps[1].spec = "@hourly"
    cron = cron_with(made)
    cron.update("c", spec="@weekly")
    reasons = dict(refusal(cron))
    assert "2 roots (a, b)" in reasons["two"]
    assert "its own schedule" in reasons["two.c"]


@pytest.mark.parametrize("name", ["no spaces", "-first", "x" * 101, "0192f0c1-2c4e-7a10-8000-000000000000"])
def test_names_that_are_no_workflow_names_are_refused_with_the_rule(name: str) -> None:
    cron = Cron()
    cron.add("@daily", succeed, name=name)
    ((where, what),) = refusal(cron)
    assert where == name
    assert "letters, digits" in what or "looks like an id" in what


def test_names_of_steps_have_their_rule_and_everybody_needs_one() -> None:
    cron = cron_with(workflow("etl", {"a": succeed, "b.c": succeed}, [("a", "b.c", Condition.SUCCESS)]))
    nameless = cron.add("@daily", succeed)
    reasons = dict(refusal(cron))
    assert "not a valid step name" in reasons["etl.b.c"]
    assert "name it" in reasons[f"#{nameless}"]


def test_names_that_are_taken_are_refused() -> None:
    app = Windlass("postgres://nowhere/at_all")
    app.workflow("etl")
    app.job("cron.report")(print)
    cron = cron_with(workflow("etl", {"a": succeed}, []))
    cron.add("@daily", succeed, name="report")
    assert [where for where, _ in refusal(cron, app)] == ["etl", "cron.report"]


def test_two_parts_of_one_name_are_refused() -> None:
    cron = cron_with(workflow("etl", {"a": succeed}, []))
    cron.add("@daily", succeed, name="etl")
    ((where, what),) = refusal(cron)
    assert where == "etl"
    assert "two workflows" in what


def test_observers_are_refused() -> None:
    cron = Cron(observers=[Observer(on_job_complete=print)])
    assert ["observers are not called" in what for _, what in refusal(cron)] == [True]


async def test_a_scheduler_that_runs_or_has_not_ended_is_refused() -> None:
    cron = cron_with(workflow("etl", {"a": succeed, "b": succeed}, [("a", "b", Condition.SUCCESS)]))
    async with cron:
        assert "stop it first" in refusal(cron)[0][1]
        cron.trigger("a")
    assert "have not ended" in refusal(cron)[0][1]
    async with cron:
        await cron.done()
    assert adopt(cron, Windlass("postgres://nowhere/at_all").handlers, ()).keys() == {"etl"}


def test_every_reason_is_told_at_once() -> None:
    cron = Cron(observers=[Observer(on_job_start=print)])
    cron.add("@every 5m", succeed, name="one", run_once=True, paused=True)
    cron.add("0 0 1 * MON", succeed, name="two words", wrappers=[max_concurrent(1)])
    reasons = refusal(cron)
    assert [where for where, _ in reasons] == ["", "one", "one", "one", "two words", "two words", "two words"]
