"""Reads workflow files: the workflows that they define, and every error in them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from windlass.cli.output import cell, note
from windlass.core.definition.parser import parse
from windlass.core.definition.publish import check
from windlass.core.workflows.workflow import Workflow
from windlass.effects.documents import read
from windlass.errors import Invalid, InvalidWorkflow

SUFFIXES = {".yaml", ".yml", ".json"}


@dataclass(frozen=True)
class Mistake:
    file: Path
    path: str | None  # in the document; None if the file cannot be read: the message names it
    message: str

    def __str__(self) -> str:
        if self.path is None:
            return self.message
        return ": ".join(part for part in (str(self.file), self.path, self.message) if part)


@dataclass
class WorkflowFiles:
    """The workflows of all files read so far."""

    workflows: list[Workflow] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    sources: dict[str, Path] = field(default_factory=dict)  # name of a workflow -> its file

    def add(self, file: Path, prefix: str, document: Any) -> None:
        """Add the workflow of a document, or its errors. `prefix` identifies the document within the file."""
        try:
            workflow = check(parse(document))
        except InvalidWorkflow as error:
            for path, message in error.errors:
                self.mistakes.append(Mistake(file, f"{prefix}{path}" if path else prefix.removesuffix(": "), message))
            return
        if (other := self.sources.get(workflow.name)) is None:
            self.sources[workflow.name] = file
            self.workflows.append(workflow)
        else:
            place = "this file" if other == file else other
            message = f"there is another workflow {workflow.name!r} in {place}"
            self.mistakes.append(Mistake(file, f"{prefix}name", message))


def load(files: Iterable[Path]) -> WorkflowFiles:
    """Read all files; an error in one does not stop the others."""
    loaded = WorkflowFiles()
    for file in files:
        try:
            documents = read(file)
        except Invalid as error:
            loaded.mistakes.append(Mistake(file, None, str(error)))
            continue
        for n, document in enumerate(documents):
            loaded.add(file, f"document {n + 1}: " if len(documents) > 1 else "", document)
    return loaded


def sound(files: Iterable[Path]) -> list[Workflow]:
    """Return the workflows of files; if there are errors, print them and exit."""
    loaded = load(files)
    if loaded.mistakes:
        print_mistakes(loaded.mistakes)
        raise click.exceptions.Exit(1)
    return loaded.workflows


def select(file: Path, workflows: Iterable[Workflow], name: str | None) -> Workflow:
    """Return the workflow with this name, or the only one if `name` is None."""
    by_name = {workflow.name: workflow for workflow in workflows}
    if name is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    if name in by_name:
        return by_name[name]
    names = ", ".join(by_name)
    if name is None:
        raise Invalid(f"{file} has {len(by_name)} workflows: choose one with --workflow ({names})", field="workflow")
    raise Invalid(f"{file} has no workflow {name!r}, but {names}", field="workflow")


def print_mistakes(mistakes: Iterable[Mistake]) -> None:
    for mistake in mistakes:
        note(cell(f"error: {mistake}"))
