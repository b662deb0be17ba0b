"""Determines the context of a position in a POSIX shell script: quoted, in a here-document, in an expansion.

It decides only how a reference to a variable is written. Safety does not depend on it: see `templates.command`.
"""

import re
from enum import Enum, auto

_HEREDOC = re.compile(r"<<(-?)[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
_BEFORE_COMMENT = frozenset(" \t\n;&|(`")
_SEPARATORS = frozenset("\n;&|")
HEAD = 500  # characters kept of the beginning of a command


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


class Script:
    """Reads a script piece by piece; `context` is the context of the next character."""

    def __init__(self) -> None:
        self._open: list[tuple[Context, str]] = []  # the open contexts, each with its closing text
        self._escaped = False
        self._pending: list[tuple[str, bool, bool]] = []  # here-documents that begin after this line
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
        """Return the context, where a double quote inside ${ } or (( )) counts as that ${ } or (( ))."""
        inner = next((context for context, _ in reversed(self._open) if context is not Context.DOUBLE), Context.PLAIN)
        return inner if inner in (Context.EXPANSION, Context.ARITHMETIC) else self.context

    @property
    def command(self) -> str:
        """The beginning of the current command."""
        return self._commands[-1]

    def value(self) -> None:
        """Read a value: it counts as one character of a word or line."""
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
        delimiter, strips_tabs, _ = self._pending[0]
        if (self._line.lstrip("\t") if strips_tabs else self._line) == delimiter:
            self._pending.pop(0)
            self._open.pop()
            self._begin_heredoc()
        self._line = ""
        return 1

    def _begin_heredoc(self) -> None:
        if self._pending:
            self._line = ""
            self._open.append((Context.HEREDOC_QUOTED if self._pending[0][2] else Context.HEREDOC, ""))

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
        """Enter a context that can open inside double quotes, too, and return the length of its opening; 0 if none."""
        openings = [("$((", Context.ARITHMETIC, "))"), ("$(", Context.PLAIN, ")"), ("${", Context.EXPANSION, "}")]
        openings.append(("`", Context.PLAIN, "`"))
        if context is not Context.DOUBLE:
            openings.append(("'", Context.SINGLE, "'"))
        openings.append(('"', Context.DOUBLE, '"'))
        for opening, inner, end in openings:
            if text.startswith(opening, at):
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
            self._pending.append((delimiter, bool(heredoc[1]), word != delimiter))
            return len(heredoc[0])
        return 1
