"""Templates in a command. A value reaches the shell only as an environment variable, never as text of the script.

Each template is replaced by a reference to a variable: `"${WINDLASS_VALUE_1?}"`, or `${WINDLASS_VALUE_1?}` where the
script has opened a double quote or a here-document. The choice is made by scanning the script, which is never exact,
so neither form may be dangerous in the wrong place. Neither is: a shell parses the script before it expands variables
and does not parse the expanded values. The worst effect of a wrong choice is that a value is split into words, matched
against file names, or that the reference stays literal text. The `?` ends the script if the variable is missing, as it
is when a worker of an older release runs the job.

Two kinds of places do parse the expanded value and are rejected when a workflow is published: arithmetic (bash runs
the command substitution in `a[$(id)]`) and commands that take a script (`eval`, `sh -c`, `trap`, ...).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windlass.core.expressions.paths import Path
from windlass.core.expressions.scope import Facts
from windlass.core.templates.parser import Pieces, paths_of, pieces
from windlass.core.templates.shell_context import Context, Script
from windlass.core.templates.value import refusal, text_at
from windlass.errors import Invalid

VARIABLE = "WINDLASS_VALUE_"
MAX_VALUE = 100 * 1024  # bytes; Linux allows 128 KiB for a variable, including its name
MAX_VALUES = 1024 * 1024  # bytes of all values of a command; Linux allows at least 2 MiB for all variables

UNQUOTED = frozenset({Context.DOUBLE, Context.HEREDOC, Context.COMMENT, Context.EXPANSION})
REFUSED = {
    Context.SINGLE: "it stands inside single quotes, where the shell expands nothing: use double quotes",
    Context.HEREDOC_QUOTED: "it stands in a here-document with a quoted delimiter, where the shell expands nothing:"
    " leave the delimiter unquoted",
    Context.ESCAPED: "it stands right behind a backslash: leave the backslash out",
    Context.EXPANSION: "it stands inside ${ }: assign it to a variable first",
    Context.ARITHMETIC: "it stands in an arithmetic expression, which evaluates the value: assign it to a variable"
    " first and check that it is a number",
}
_EVALUATES = (  # commands and other places that evaluate their text; matched against the command read so far
    (re.compile(r"(?:^|[\s;&|(`])eval\s").search, "eval"),
    (re.compile(r"(?:^|[\s;&|(`])let\s").search, "let"),
    (re.compile(r"(?:^|[\s;&|(`])trap\s").search, "trap"),
    (re.compile(r"(?:^|[\s;&|(`/])(?:su|(?:ba|da|a|k|z)?sh)\s.*-\w*c\s", re.DOTALL).search, "sh -c"),
    (
        re.compile(r"(?:^|[\s/])(?:python[\d.]*|perl|ruby|node|php)\s.*-\w*[cer]\s", re.DOTALL).search,
        "this interpreter",
    ),
    (re.compile(r"(?:^|\s)\[\[\s").search, "[[ ]]"),
    (re.compile(r"\w\[[^]\s]*\Z").search, "the subscript of an array"),
)


@dataclass(frozen=True, slots=True)
class Command:
    script: str
    variables: tuple[tuple[str, Path], ...]

    @classmethod
    def of(cls, found: Pieces) -> "Command":
        script, named = Script(), _names(found)
        text = ""
        for piece in found:
            if isinstance(piece, Path):
                reference = f"${{{named[piece]}?}}"
                text += reference if script.context in UNQUOTED else f'"{reference}"'
                script.value()
            else:
                text += piece
                script.read(piece)
        return cls(text, tuple((name, path) for path, name in named.items()))

    def value(self, facts: Facts) -> dict[str, Any]:
        values = {name: _value(facts, path) for name, path in self.variables}
        if (size := sum(len(value.encode()) for value in values.values())) > MAX_VALUES:
            raise refusal(self.variables[0][1], _too_large(size, MAX_VALUES, "all values of the command are"))
        return {"run": self.script, "values": values}

    def paths(self) -> Iterator[Path]:
        return (path for _, path in self.variables)


def check_places(text: str) -> None:
    """Raise `Invalid` for a template where the shell would not expand its value, or would evaluate it."""
    script = Script()
    for piece in pieces(text):
        if isinstance(piece, Path):
            why = REFUSED.get(script.enclosing) or _evaluated(script)
            if why:
                raise Invalid(f"{{{{{piece.text}}}}} cannot be used here: {why}")
            script.value()
        else:
            script.read(piece)


def _evaluated(script: Script) -> str | None:
    if script.context in (Context.COMMENT, Context.HEREDOC):
        return None
    name = next((name for found, name in _EVALUATES if found(script.command)), None)
    if name is None:
        return None
    return f"{name} would run its value as code: read the value from $WINDLASS_INPUT_FILE or $WINDLASS_INPUT instead"


def _names(found: Pieces) -> dict[Path, str]:
    """Return the variable name of each path, in the order of first use."""
    return {path: f"{VARIABLE}{n}" for n, path in enumerate(dict.fromkeys(paths_of(found)), 1)}


def _value(facts: Facts, path: Path) -> str:
    text = text_at(facts, path)
    if "\x00" in text:
        raise refusal(path, "its value contains a NUL, which no environment variable can hold")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise refusal(path, "its value contains half of a surrogate pair, which is not text") from None
    if size > MAX_VALUE:
        raise refusal(path, _too_large(size, MAX_VALUE, "its value is"))
    return text


def _too_large(size: int, limit: int, what: str) -> str:
    return f"{what} {size} bytes, the limit is {limit}: pass it as `input` and read $WINDLASS_INPUT_FILE"
