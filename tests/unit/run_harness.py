"""A run in memory: tests pass events to it and check the commands that it returns."""

from datetime import UTC, datetime

from windlass.core.runs.command import Command, Conclude, Note, OpenHook, Start
from windlass.core.runs.decide import decide
from windlass.core.runs.event import Begun, CancelRequested, Ended, Event, Judged
from windlass.core.runs.run import Fan, Letter, Reason, Run, RunState
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import Step

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WHY = Reason("test", "because")
ENOUGH = CancelRequested(Reason("user", "enough"))


class Play:
    """A run that receives events. `send` returns its commands without notes that have no reason and without the opening
    of callback addresses; all notes are in `trail`, the opened addresses in `opened`."""

    def __init__(self, *steps: Step, held: bool = False, composition: bool = False) -> None:
        self.plan = Plan(steps, composition=composition)
        self.trail: list[Note] = []
        self.opened: list[int] = []
        self.run = Run.new(self.plan, held=held)
        self.first = [] if held else self.send(Begun())

    def send(self, *events: Event) -> list[Command]:
        self.run, commands = decide(self.run, events, NOW)
        self.trail = [command for command in commands if isinstance(command, Note)]
        self.opened = [command.step for command in commands if isinstance(command, OpenHook)]
        return [command for command in commands if not _is_left_out(command)]

    def end(self, **letters: str) -> list[Command]:
        """End steps, all with one decision; the letters `ss` end two instances."""
        return self.send(*(self.ended(name, letter) for name, word in letters.items() for letter in word))

    def ended(self, name: str, letter: str, count: int = 1) -> Ended:
        return Ended(self.number(name), Letter(letter), None if letter == "s" else WHY, count)

    def judge(self, name: str, holds: bool) -> list[Command]:
        return self.send(Judged(self.number(name), holds, WHY))

    def number(self, name: str) -> int:
        return self.plan.number[name]

    def names(self, commands: list[Command]) -> list[str]:
        return [self.plan.steps[command.step].name for command in commands if isinstance(command, Start)]

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


def notes(commands: list[Command]) -> list[tuple[int, str, str]]:
    return [
        (command.step, command.letter, command.reason.text)
        for command in commands
        if isinstance(command, Note) and command.reason is not None
    ]


def _is_left_out(command: Command) -> bool:
    return isinstance(command, OpenHook) or (isinstance(command, Note) and command.reason is None)
