"""Templates in a command. A value reaches the shell only as an environment variable, never as part of the script.

Each template is replaced by a reference to a variable: `"${WINDLASS_VALUE_1?}"`, or `${WINDLASS_VALUE_1?}` where the
script has opened a double quote or a here-document. The choice is made by scanning the script, which is never exact,
so neither form may be dangerous in the wrong position. Neither is: a shell parses the script before it expands
variables and does not parse the expanded values. The worst effect of a wrong choice is that a value is split into words
or matched against file names, or that the reference stays literal text. The `?` ends the script if the variable is
missing, as it is when a worker of an older release runs the job.

Two kinds of positions in which the value is parsed are rejected when a workflow is published: arithmetic (bash runs the
command substitution in `a[$(id)]`) and commands that take a script (`eval`, `sh -c`, `trap`, ...).

`Script` determines the context of a position in the script: quoted, in a here-document, in an expansion. It decides
only how the reference to a variable is written; as said above, safety does not depend on it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

from windlass.core.expressions.scope import Facts, Path
from windlass.core.templates.template import Binding, Constant, Pieces, is_plain, paths_of, pieces, refusal, text_at
from windlass.errors import Invalid

VARIABLE = "WINDLASS_VALUE_"
MAX_VALUE = 100 * 1024  # bytes; Linux allows 128 KiB for a variable, including its name
MAX_VALUES = 1024 * 1024  # bytes of all values of a command; Linux allows at least 2 MiB for all variables
HEAD = 500  # characters kept of the beginning of a command

_HEREDOC = re.compile(r"<<(-?)[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
_BEFORE_COMMENT = frozenset(" \t\n;&|(`")
_SEPARATORS = frozenset("\n;&|")


class Context(Enum):
    PLAIN = auto()  # also inside $( ), ( ) and backticks
    DOUBLE = auto()
    SINGLE = auto()
    ESCAPED = auto()  # right after a backslash
    EXPANSION = auto()  # inside ${ }
    ARITHMETIC = auto()  # inside (( )) and $(( ))
    COMMENT = auto()
    HEREDOC = auto()
    HEREDOC_QUOTED = auto()  # its delimiter is quoted, so nothing is expanded


OPENINGS = (  # opening string, context, closing string
    ("$((", Context.ARITHMETIC, "))"),
    ("$(", Context.PLAIN, ")"),
    ("${", Context.EXPANSION, "}"),
    ("`", Context.PLAIN, "`"),
    ("'", Context.SINGLE, "'"),
    ('"', Context.DOUBLE, '"'),
)
UNQUOTED = frozenset({Context.DOUBLE, Context.HEREDOC, Context.COMMENT, Context.EXPANSION})
REFUSED = {
    Context.SINGLE: "it is inside single quotes, where the shell expands nothing: use double quotes",
    Context.HEREDOC_QUOTED: "it is in a here-document with a quoted delimiter, where the shell expands nothing:"
    " leave the delimiter unquoted",
    Context.ESCAPED: "it follows a backslash: leave the backslash out",
    Context.EXPANSION: "it is inside ${ }: assign it to a variable first",
    Context.ARITHMETIC: "it is in an arithmetic expression, which evaluates the value: assign it to a variable"
    " first and check that it is a number",
}
_EVALUATES = (  # commands and constructs that evaluate their text as code; matched against the command read so far
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


class Heredoc(NamedTuple):
    delimiter: str
    strips_tabs: bool
    is_quoted: bool


class Script:
    """Reads a script piece by piece; `context` is the context of the next character."""

    def __init__(self) -> None:
        self._open: list[tuple[Context, str]] = []  # the open contexts, each with its closing string
        self._escaped = False
        self._pending: list[Heredoc] = []  # here-documents that begin after this line
        self._line = ""  # the current line of a here-document
        self._previous = "\n"
        self._commands = [""]  # the current command, of the script and of each open $( ), ( ) and backtick

    @property
    def context(self) -> Context:
        if self._escaped:
            return Context.ESCAPED
        return self._open[-1][0] if self._open else Context.PLAIN

    @property
    def enclosing(self) -> Context:
        """Return the context; inside double quotes within ${ } or (( )), the context of that ${ } or (( ))."""
        inner = next((context for context, _ in reversed(self._open) if context is not Context.DOUBLE), Context.PLAIN)
        return inner if inner in (Context.EXPANSION, Context.ARITHMETIC) else self.context

    @property
    def command(self) -> str:
        """The beginning of the current command."""
        return self._commands[-1]

    def value(self) -> None:
        """Read past a value, which counts as one character of a word or line."""
        self._previous, self._escaped = "x", False
        self._line += "x"
        self._remember("x")

    def _remember(self, text: str) -> None:
        if len(self._commands[-1]) < HEAD:
            self._commands[-1] += text

    def read(self, text: str) -> None:
        at = 0
        while at < len(text):
            at += self._read_at(text, at)

    def _read_at(self, text: str, at: int) -> int:
        """Read the next token and return its length."""
        character, context = text[at], self.context
        if context is Context.ESCAPED:
            self._escaped = False
            length = 1
        elif context in (Context.HEREDOC, Context.HEREDOC_QUOTED):
            length = self._heredoc_line(character)
        elif context in (Context.SINGLE, Context.COMMENT):
            length = self._until_end(character)
        else:
            length = self._code(text, at)
            self._remember(text[at : at + length])
        self._previous = text[at + length - 1]
        return length

    def _until_end(self, character: str) -> int:
        if character == self._open[-1][1]:
            self._open.pop()
            if character == "\n":
                self._begin_heredoc()
        return 1

    def _heredoc_line(self, character: str) -> int:
        if character != "\n":
            self._line += character
            return 1
        heredoc = self._pending[0]
        if (self._line.lstrip("\t") if heredoc.strips_tabs else self._line) == heredoc.delimiter:
            self._pending.pop(0)
            self._open.pop()
            self._begin_heredoc()
        self._line = ""
        return 1

    def _begin_heredoc(self) -> None:
        if self._pending:
            self._line = ""
            self._open.append((Context.HEREDOC_QUOTED if self._pending[0].is_quoted else Context.HEREDOC, ""))

    def _code(self, text: str, at: int) -> int:
        context, end = self._open[-1] if self._open else (Context.PLAIN, "")
        if end and text.startswith(end, at):
            self._open.pop()
            if context is Context.PLAIN:
                self._commands.pop()
            return len(end)
        if text[at] == "\\":
            self._escaped = True
            return 1
        if opened := self._opened(text, at, context):
            return opened
        if context is Context.PLAIN:
            return self._plain(text, at)
        return 1

    def _opened(self, text: str, at: int, context: Context) -> int:
        """Enter the context that opens at this position and return the length of its opening; 0 if none opens."""
        for opening, inner, end in OPENINGS:
            if text.startswith(opening, at) and not (inner is Context.SINGLE and context is Context.DOUBLE):
                self._push(inner, end)
                return len(opening)
        return 0

    def _push(self, inner: Context, end: str) -> None:
        self._open.append((inner, end))
        if inner is Context.PLAIN:
            self._commands.append("")

    def _plain(self, text: str, at: int) -> int:
        if text[at] in _SEPARATORS:
            self._commands[-1] = ""
        if text[at] == "#" and self._previous in _BEFORE_COMMENT:
            self._open.append((Context.COMMENT, "\n"))
        elif text[at] == "\n":
            self._begin_heredoc()
        elif text.startswith("((", at):
            self._open.append((Context.ARITHMETIC, "))"))
            return 2
        elif text[at] == "(":
            self._push(Context.PLAIN, ")")
        elif text.startswith("<<<", at):
            return 3
        elif heredoc := _HEREDOC.match(text, at):
            word = heredoc[2]
            delimiter = re.sub(r"\\(.)|['\"]", r"\1", word)
            self._pending.append(Heredoc(delimiter, bool(heredoc[1]), word != delimiter))
            return len(heredoc[0])
        return 1


@dataclass(frozen=True, slots=True)
class Command:
    script: str
    variables: tuple[tuple[str, Path], ...]

    @classmethod
    def of(cls, parts: Pieces) -> "Command":
        script, named = Script(), _names(parts)
        text = ""
        for piece in parts:
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


def compile_command(text: str) -> Binding:
    """Compile a command. It resolves to `{"run": script}`, plus `values` by environment variable if there are any."""
    parts = pieces(text)
    return Binding(Constant({"run": "".join(map(str, parts))}) if is_plain(parts) else Command.of(parts))


def check_places(text: str) -> None:
    """Raise `Invalid` for a template where the shell would not expand its value, or would run the value as code."""
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
    name = next((name for matches, name in _EVALUATES if matches(script.command)), None)
    if name is None:
        return None
    return f"{name} would run its value as code: read the value from $WINDLASS_INPUT_FILE or $WINDLASS_INPUT instead"


def _names(parts: Pieces) -> dict[Path, str]:
    """Return the variable name of each path, in the order of first use."""
    return {path: f"{VARIABLE}{n}" for n, path in enumerate(dict.fromkeys(paths_of(parts)), 1)}


def _value(facts: Facts, path: Path) -> str:
    text = text_at(facts, path)
    if "\x00" in text:
        raise refusal(path, "its value contains a NUL, which no environment variable can hold")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise refusal(path, "its value contains an unpaired surrogate, which is not valid Unicode") from None
    if size > MAX_VALUE:
        raise refusal(path, _too_large(size, MAX_VALUE, "its value is"))
    return text


def _too_large(size: int, limit: int, what: str) -> str:
    return f"{what} {size} bytes, the limit is {limit}: pass it as `input` and read $WINDLASS_INPUT_FILE"
