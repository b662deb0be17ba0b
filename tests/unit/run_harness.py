"""A run on stage: it is told things, and what it asks for in return is looked at."""

from datetime import UTC, datetime

from windlass.core.runs.command import Command, Conclude, Enqueue, ListenUntil, Note, Reopen, StartChild, WakeAt
from windlass.core.runs.decide import decide
from windlass.core.runs.event import Begun, CancelAsked, Ended, Event, Judged
from windlass.core.runs.reason import Reason
from windlass.core.runs.run import Fan, Letter, Run, RunState
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import Step

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WHY = Reason("test", "because")
ENOUGH = CancelAsked(Reason("user", "enough"))
STARTS = Enqueue | StartChild | WakeAt | ListenUntil | Reopen


class Play:
    """A run that is told things, and what it asked for in return."""

    def __init__(self, *steps: Step, held: bool = False) -> None:
        self.plan = Plan(steps)
        self.run = Run.new(self.plan, held=held)
        self.first = [] if held else self.tell(Begun())

    def tell(self, *events: Event) -> list[Command]:
        self.run, commands = decide(self.run, events, NOW)
        return commands

    def end(self, **letters: str) -> list[Command]:
        """Steps end, all told at once; the word `ss` ends two instances."""
        return self.tell(*(self.ended(name, letter) for name, word in letters.items() for letter in word))

    def ended(self, name: str, letter: str, count: int = 1) -> Ended:
        return Ended(self.number(name), Letter(letter), None if letter == "s" else WHY, count)

    def judge(self, name: str, holds: bool) -> list[Command]:
        return self.tell(Judged(self.number(name), holds, WHY))

    def number(self, name: str) -> int:
        return self.plan.number[name]

    def names(self, commands: list[Command]) -> list[str]:
        return [self.plan.steps[command.step].name for command in commands if isinstance(command, STARTS)]

    @property
    def letters(self) -> str:
        return self.run.letters

    @property
    def state(self) -> RunState:
        return self.run.state

    def fan(self, name: str) -> Fan:
        return self.run.fans[self.number(name)]


def concluded(commands: list[Command]) -> list[RunState]:
    return [command.state for command in commands if isinstance(command, Conclude)]


def notes(commands: list[Command]) -> list[tuple[int | None, str | None, str]]:
    return [(command.step, command.letter, command.reason.text) for command in commands if isinstance(command, Note)]
