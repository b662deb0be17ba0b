"""Lists the reasons why entries would behave differently in the durable engine, each with a fix. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from windlass.core.cron.expression import CLASSIC, parse
from windlass.core.cron.syntax import At, Every
from windlass.core.definition.fields import step_name_mistake, workflow_name_mistake
from windlass.cron.entry import Entry, Missed
from windlass.cron.subgraph import Subgraph, local
from windlass.errors import InvalidCron

Reason = tuple[str, str]  # (path, problem)
INSTEAD = {
    "skip_if_running": "take it off; an entry that has a schedule and stands alone may keep it",
    "delay_if_running": "take it off; an entry that stands alone may keep it",
    "max_instances": "take it off, or use max_instances=1 on an entry that has a schedule and stands alone",
    "max_concurrent": "take it off and build the workflow with `concurrency`, or its handlers (app.job)",
    "max_concurrent_skip": "take it off and build the workflow with `overlap`, or let the job look",
    "circuit_breaker": "take it off and let the job look",
}


def reasons(parts: Sequence[Subgraph]) -> Iterator[Reason]:
    """Yield all reasons in the order of the entries."""
    names = Counter(part.name for part in parts)
    for part in parts:
        yield from _of_whole(part)
        if part.name is not None and names[part.name] > 1:
            names[part.name] = 0  # report a duplicate name once
            yield part.name, "there would be two workflows of this name: rename an entry or a workflow"
        for entry in part.entries:
            where = label(entry) if part.alone else f"{part.name}.{label(entry)}"
            for what in (*_of_options(entry), *_of_wrappers(part, entry), *_of_times(part, entry)):
                yield where, what


def label(entry: Entry) -> str:
    return entry.name if entry.name is not None else f"#{entry.id}"


def _of_whole(part: Subgraph) -> Iterator[Reason]:
    for entry in part.entries:
        if entry.name is None:
            yield label(entry), "it has no name, and workflows and steps are known by theirs: give it one"
        elif not part.alone and (mistake := step_name_mistake(entry.name)):
            yield f"{part.name}.{entry.name}", mistake
    if part.name is not None and (mistake := workflow_name_mistake(part.name)):
        yield part.name, mistake
    if len(part.roots) > 1:
        roots = ", ".join(map(label, part.roots))
        yield (
            str(part.name),
            f"it has {len(part.roots)} roots ({roots}): here each begins an execution of its own, a run begins all of "
            "them; make a workflow of each, or put one step before them",
        )


def _of_options(entry: Entry) -> Iterator[str]:
    if entry.run_once:
        yield "it runs once and is gone, a workflow stays: take run_once off and start a run with app.start"
    if entry.run_immediately:
        yield "it runs when it is taken up, a workflow when it is due: take run_immediately off and use app.start"
    if entry.paused:
        yield "it is paused, and steps cannot be: resume it or remove it (app.enable_workflow switches a whole one off)"
    if entry.grace is not None and entry.missed in (Missed.ONCE, Missed.ALL):
        yield "missed ticks are made up for however old they are: take `grace` off"


def _of_wrappers(part: Subgraph, entry: Entry) -> Iterator[str]:
    for name in map(local, part.wrappers(entry)):
        if name is not None:
            yield f"{name} remembers starts in one process, and workers are many: {INSTEAD[name]}"


def _of_times(part: Subgraph, entry: Entry) -> Iterator[str]:
    schedule = entry.schedule
    if schedule.triggered:
        return
    if part.edges[entry.id]:
        yield "it has parents and a schedule of its own: a run begins at the root; move it to a workflow of its own"
    if isinstance(schedule.rule, At):
        return  # runs once: already reported by `_of_options`
    if isinstance(schedule.rule, Every):
        yield f"{schedule.text!r} counts from the start of this process: write it as a cron line, such as */5 * * * *"
        return
    if schedule.zone.key is None:
        yield "its time zone has no name: use one of the IANA zones"
        return
    try:
        there = parse(schedule.text, dialect=CLASSIC, zone=schedule.zone)
    except InvalidCron as error:
        yield f"stored crons cannot say {schedule.text!r} ({error}): write it without years and H"
        return
    if (there.rule, there.gap) != (schedule.rule, schedule.gap):
        yield (
            f"{schedule.text!r} would mean other times: stored crons let either day field match, here both must (or as "
            "the dialect says); restrict one field and look at the other in the job, or use Cron(dialect=CLASSIC)"
        )
