"""Workflow files: what they define, and every mistake in them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from windlass.cli.output import cell, note
from windlass.core.definition.parser import parse
from windlass.core.definition.publish import check
from windlass.core.workflows.workflow import Workflow
from windlass.effects.documents import read
from windlass.errors import Invalid, InvalidWorkflow


@dataclass(frozen=True)
class Mistake:
    file: Path
    path: str | None  # in the document; None: the file cannot be read, and the message names it
    message: str

    def __str__(self) -> str:
        if self.path is None:
            return self.message
        return ": ".join(part for part in (str(self.file), self.path, self.message) if part)


@dataclass
class Loaded:
    """What was read so far."""

    workflows: list[Workflow] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    origins: dict[str, Path] = field(default_factory=dict)  # by the workflow's name


def load(files: Iterable[Path]) -> Loaded:
    """Read all of it, whatever is wrong with some of it."""
    found = Loaded()
    for file in files:
        try:
            documents = read(file)
        except Invalid as error:
            found.mistakes.append(Mistake(file, None, str(error)))
            continue
        for n, document in enumerate(documents):
            _add(found, file, f"document {n + 1}: " if len(documents) > 1 else "", document)
    return found


def sound(files: Iterable[Path]) -> list[Workflow]:
    """The workflows of files without mistakes; else tells the mistakes and ends the program."""
    found = load(files)
    if found.mistakes:
        tell(found.mistakes)
        raise typer.Exit(1)
    return found.workflows


def chosen(file: Path, workflows: Iterable[Workflow], name: str | None) -> Workflow:
    """The one of this name, or the only one."""
    found = {workflow.name: workflow for workflow in workflows}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    names = ", ".join(found)
    if name is None:
        raise Invalid(f"{file} has {len(found)} workflows: choose one with --workflow ({names})", field="workflow")
    raise Invalid(f"{file} has no workflow {name!r}, but {names}", field="workflow")


def tell(mistakes: Iterable[Mistake]) -> None:
    for mistake in mistakes:
        note(cell(f"error: {mistake}"))


def _add(found: Loaded, file: Path, where: str, document: Any) -> None:
    try:
        workflow = check(parse(document))
    except InvalidWorkflow as refusal:
        found.mistakes += _placed(file, where, refusal)
        return
    if (other := found.origins.get(workflow.name)) is None:
        found.origins[workflow.name] = file
        found.workflows.append(workflow)
    else:
        place = "this file" if other == file else other
        found.mistakes.append(Mistake(file, f"{where}name", f"there is another workflow {workflow.name!r} in {place}"))


def _placed(file: Path, where: str, refusal: InvalidWorkflow) -> Iterator[Mistake]:
    for path, message in refusal.errors:
        yield Mistake(file, f"{where}{path}" if path else where.removesuffix(": "), message)
