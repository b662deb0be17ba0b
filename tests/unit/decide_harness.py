"""Random workflows and worlds, and a shell that executes the commands of `decide` and checks each of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.unit.reference import World, edges_met, node
from windlass.core.runs.command import (
    AwaitMessages,
    CancelChildren,
    CancelJobs,
    CancelTimer,
    Command,
    Conclude,
    Enqueue,
    Expand,
    ForgetHook,
    Judge,
    ListenUntil,
    Note,
    OpenHook,
    Pause,
    Reopen,
    Reply,
    RequestApproval,
    RestartChildren,
    Resume,
    StartChild,
    UndoChildren,
    Undoing,
    WakeAt,
)
from windlass.core.runs.decide import decide
from windlass.core.runs.event import Begun, Ended, Event, Expanded, Judged
from windlass.core.runs.run import Letter, Reason, Run, RunState
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import (
    Action,
    ChildAction,
    CommandAction,
    Condition,
    FanOut,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    Join,
    Parallel,
    SleepAction,
    Step,
    UndoAction,
    compensation_name,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WIDEST = 5
FANNED: list[Action] = [JobAction("j.v1"), HttpAction("https://example.com"), CommandAction("true"), ChildAction("w")]
SINGLE: list[Action] = [*FANNED, SleepAction(timedelta(seconds=30)), HookAction(timedelta(hours=1)), HookAction()]
unhurried = settings(max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])

few = settings(unhurried, max_examples=40)


@st.composite
def graphs(draw: st.DrawFn, joins: Sequence[Join] = tuple(Join)) -> tuple[Step, ...]:
    """Draw up to twelve steps, defined in an order that is not that of the graph."""
    count = draw(st.integers(1, 12))
    steps = [draw(a_step(n, joins)) for n in range(count)]
    if draw(st.booleans()):
        steps[-1] = replace(steps[-1], edges=(), final=True)
    return tuple(draw(st.permutations(steps)))


@st.composite
def a_step(draw: st.DrawFn, number: int, joins: Sequence[Join]) -> Step:
    earlier = [f"s{n}" for n in range(number)]
    need = st.tuples(st.sampled_from(earlier), st.sampled_from(Condition)) if earlier else st.nothing()
    needs = draw(st.lists(need, max_size=3)) if earlier else []
    fan_out = draw(st.one_of(st.none(), st.none(), fan_outs()))
    return node(
        f"s{number}",
        *(f"{parent}:{condition}" for parent, condition in needs),
        action=draw(st.sampled_from(FANNED if fan_out else SINGLE)),
        join=draw(st.sampled_from(joins)),
        condition=draw(st.sampled_from([None, None, None, "x"])),
        fan_out=fan_out,
        concurrency=draw(st.sampled_from([None, 1, 2, 3])) if fan_out else None,
    )


def fan_outs() -> st.SearchStrategy[FanOut]:
    return st.one_of(st.integers(0, WIDEST).map(Parallel), st.just(Foreach("input.items")), st.just(Parallel("s0.n")))


@st.composite
def compensated_graphs(draw: st.DrawFn) -> tuple[Step, ...]:
    """Draw a graph in which some steps have a compensation."""
    steps = draw(graphs())
    undone = [step for step in steps if not step.final and draw(st.booleans())]
    return (*steps, *(draw(a_compensation(step)) for step in undone))


@st.composite
def a_compensation(draw: st.DrawFn, step: Step) -> Step:
    actions: list[Action] = [JobAction("undo.v1"), ChildAction("undo")]
    if isinstance(step.action, ChildAction):
        actions.append(UndoAction(step.action.workflow))
    return node(compensation_name(step.name), action=draw(st.sampled_from(actions)), compensates=step.name)


@st.composite
def worlds(draw: st.DrawFn, steps: Sequence[Step], letters: str = "ssssffttc") -> World:
    sizes = st.sampled_from([*range(WIDEST + 1), None])
    ends = st.lists(st.sampled_from(letters), min_size=WIDEST, max_size=WIDEST)
    return World(
        outcomes={step.name: draw(ends) for step in steps},
        truths={step.name: draw(st.booleans()) for step in steps if step.condition is not None},
        sizes={step.name: written(step.fan_out, draw(sizes)) for step in steps if step.fan_out is not None},
    )


def written(fan_out: FanOut, found: int | None) -> int | None:
    """Return the size of a fan-out: its number in the definition, otherwise the one that was drawn."""
    return fan_out.count if isinstance(fan_out, Parallel) and isinstance(fan_out.count, int) else found


def all_good(world: World) -> World:
    """Return the same world with only successful outcomes."""
    return World(
        outcomes=dict.fromkeys(world.outcomes, "s" * WIDEST),
        truths=world.truths,
        sizes={name: 2 if size is None else size for name, size in world.sizes.items()},
    )


scenes = graphs().flatmap(lambda steps: st.tuples(st.just(steps), worlds(steps)))
ordered_scenes = graphs(joins=[Join.ALL]).flatmap(lambda steps: st.tuples(st.just(steps), worlds(steps)))
compensated_scenes = compensated_graphs().flatmap(lambda steps: st.tuples(st.just(steps), worlds(steps)))
seeds = st.integers(0, 2**32)
Scene = tuple[tuple[Step, ...], World]


class Shell:
    """Executes commands in random order and checks that no step starts twice, too early or above its concurrency."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.steps, self.world = scene
        self.random = Random(seed)
        self.run = Run.new(Plan(self.steps), held=bool(seed % 2))
        self.under_way: Counter[tuple[int, int]] = Counter()  # (step, instance) -> number of active executions
        self.starts: Counter[tuple[int, int]] = Counter()  # in this round
        self.carried: set[tuple[int, int]] = set()  # active when this round began: their ends count in it
        self.ends: dict[str, list[str]] = {step.name: [""] * WIDEST for step in self.steps}
        self.conclusions: list[RunState] = []
        self.notes: dict[int, Note] = {}
        self.hooks: dict[int, bool] = {}  # steps with a callback address, and whether its callback was used
        self.forced: set[int] = set()  # steps that run regardless of their edges
        self.said: list[Event] = []  # events to repeat
        self.completions: list[set[str]] = []  # steps that succeeded, a set for each decision
        self.replies: list[Reply] = []
        self.undone: list[str] = []  # steps whose compensation was started
        self.send(Begun())

    @property
    def known(self) -> dict[str, str]:
        return {step.name: letter for step, letter in zip(self.steps, self.run.letters, strict=True)}

    @property
    def state(self) -> str:
        return self.run.state

    def send(self, *events: Event) -> list[Command]:
        """Decide and execute the commands; apply the results of `Judge` and `Expand` as well, as in one transaction."""
        done: list[Command] = []
        waiting = list(events)
        while True:
            commands = self._decide(waiting)
            done += commands
            for command in commands:
                self._carry_out(command)
            questions = [command for command in commands if isinstance(command, Judge | Expand)]
            if not questions:
                return done
            waiting = [self._answer(question) for question in questions]
            self.random.shuffle(waiting)

    def drive(self, batches: int = 10_000) -> None:
        """End random groups of active instances until none is left, or at most `batches` groups."""
        for _ in range(batches):
            if not self.under_way:
                return
            some = self.random.sample([*self.under_way], self.random.randint(1, len(self.under_way)))
            events = [*self._ended(some), *self._echoes()]
            self.random.shuffle(events)
            self.send(*events)

    def next_round(self, world: World) -> None:
        self.world = world
        self.starts.clear()
        self.carried = set(self.under_way)
        self.said.clear()

    def _decide(self, events: Sequence[Event]) -> list[Command]:
        before = self.run
        self.run, commands = decide(before, events, NOW)
        assert decide(before, events, NOW) == (self.run, commands), "not pure"
        noted = {command.step: command for command in commands if isinstance(command, Note)}
        moved = zip(self.steps, before.letters, self.run.letters, strict=True)
        self.completions.append({step.name for step, old, new in moved if old != new == "s"})
        for step, (old, new) in enumerate(zip(before.letters, self.run.letters, strict=True)):
            if old != new and new in "kft" and not (new == "k" and self.steps[step].compensates):
                assert step in noted, f"no reason why {self.steps[step].name} became {new}"
                assert noted[step].letter == new
                self.notes[step] = noted[step]
        self._trail_is_complete(before, commands)
        return commands

    def _trail_is_complete(self, before: Run, commands: Sequence[Command]) -> None:
        """Check that the starts and ends of a step without a job, or with several, are noted in the trail once."""
        noted = Counter((command.step, command.letter) for command in commands if isinstance(command, Note))
        for step in set(range(len(self.steps))) - set(before.plan.single_jobs):
            letter = Letter(self.run.letters[step])
            if letter in (before.letters[step], Letter.WAITING):
                continue
            if letter is Letter.SKIPPED and self.steps[step].compensates:
                continue  # reset for another round
            with_its_if = letter is Letter.ACTIVE and self.steps[step].condition and self.steps[step].fan_out
            assert noted[step, letter] == 1 or with_its_if, f"{self.steps[step].name} became {letter}: {noted}"

    def _carry_out(self, command: Command) -> None:
        match command:
            case Enqueue(step, first, count) | StartChild(step, first, count):
                self._start(step, range(first, first + count))
            case WakeAt(step, at):
                assert at == NOW + timedelta(seconds=30)
                self._start(step, [0])
            case ListenUntil(step, at) | AwaitMessages(step, at) | RequestApproval(step, at):
                assert at in (None, NOW + timedelta(hours=1))
                unused = isinstance(command, AwaitMessages | RequestApproval) or self.hooks[step] is False
                assert unused, "waits at an address that does not exist or whose callback was used"
                self._start(step, [0])
            case Reopen(step, count) | RestartChildren(step, count):
                bad = [n for n, end in enumerate(self.ends[self.steps[step].name]) if end in "ftc" and end]
                idle = [n for n in bad if not self.starts[step, n] and (step, n) not in self.carried]
                assert len(idle) >= count, "more instances reopened than ended without success"
                self._start(step, idle[:count])
            case Conclude():
                self._conclude(command)
            case Judge(step) | Expand(step):
                assert self.run.letters[step] == Letter.WAITING
                self._parents_are_done(step)
            case CancelJobs(step) | CancelTimer(step) | CancelChildren(step):
                assert self.run.letters[step] == Letter.ACTIVE
            case OpenHook() | ForgetHook():
                self._change_hook(command)
            case Note() | Undoing() | Reply() | UndoChildren() | Pause() | Resume():
                self._undo(command)

    def _undo(self, command: Note | Undoing | Reply | UndoChildren | Pause | Resume) -> None:
        if isinstance(command, Reply):
            self.replies.append(command)
        if not isinstance(command, UndoChildren):
            return
        assert self.steps[command.step].compensates == self.steps[command.of].name
        assert command.count == (self.run.fans[command.of].count if self.steps[command.of].fan_out else 1)
        self._start(command.step, range(command.count))

    def _conclude(self, command: Conclude) -> None:
        assert not self.under_way or command.state in (RunState.CANCELLED, RunState.TIMEOUT)
        self.conclusions.append(command.state)
        self.last_conclusion = command

    def _change_hook(self, command: OpenHook | ForgetHook) -> None:
        if isinstance(command, OpenHook):
            self.hooks.setdefault(command.step, False)
        else:
            assert self.hooks[command.step], "no callback to forget"
            self.hooks[command.step] = False

    def _start(self, step: int, instances: Iterable[int]) -> None:
        self._parents_are_done(step)
        if (undone := self.steps[step].compensates) is not None:
            assert not self.under_way, "a compensation started while another step is active"
            assert self.known[undone] == "s"
            self.undone.append(undone)
        for n in instances:
            self.under_way[step, n] += 1
            self.starts[step, n] += 1
            assert self.starts[step, n] == 1, f"{self.steps[step].name}[{n}] started twice"
        limit = self.steps[step].concurrency or WIDEST
        assert sum(1 for who, _ in self.under_way if who == step) <= limit, "more instances than its concurrency"

    def _parents_are_done(self, number: int) -> None:
        step, known = self.steps[number], self.known
        if number in self.forced:
            return
        if step.final:
            open_ones = [name for name, letter in known.items() if letter in ".a" and name != step.name]
            assert not open_ones, "the final step started before all other steps ended"
        if step.join is Join.ANY and step.condition is None:
            assert edges_met(step, known)
        elif not step.final:
            assert all(known[edge.parent] not in ".a" for edge in step.edges)

    def _answer(self, question: Judge | Expand) -> Event:
        name = self.steps[question.step].name
        answer: Event
        match question:
            case Judge(step):
                answer = Judged(step, self.world.truths[name], Reason("condition", "x"))
            case Expand(step):
                size = self.world.sizes[name]
                if size is None:
                    return Ended(step, Letter.FAILED, Reason("expansion", "cannot expand"))
                answer = Expanded(step, size)
        self.said.append(answer)
        return answer

    def _ended(self, some: Sequence[tuple[int, int]]) -> list[Event]:
        groups: Counter[tuple[int, str]] = Counter()
        for step, n in some:
            name = self.steps[step].name
            self.ends[name][n] = self.world.outcomes[name][n]
            del self.under_way[step, n]
            if isinstance(self.steps[step].action, HookAction) and self.world.outcomes[name][n] == "s":
                self.hooks[step] = True
            groups[step, self.world.outcomes[name][n]] += 1
        events: list[Event] = []
        for (step, letter), count in groups.items():
            reason = None if letter == "s" else Reason("outcome", letter)
            split = [count] if self.random.random() < 0.5 else [1] * count
            events += [Ended(step, Letter(letter), reason, part) for part in split]
            if self.steps[step].fan_out is None and step not in self.run.fans:  # ends of instances would count twice
                self.said += events[-1:]
        return events

    def _echoes(self) -> list[Event]:
        """Return earlier events, which must have no effect when they are repeated."""
        return self.random.sample(self.said, min(len(self.said), self.random.randint(0, 2)))

    def recorded(self) -> World:
        """Return the world with the ends that were recorded, including those of earlier rounds."""
        return replace(self.world, outcomes=self.ends)


def play(scene: Scene, seed: int, batches: int = 10_000) -> Shell:
    shell = Shell(scene, seed)
    shell.drive(batches)
    return shell
