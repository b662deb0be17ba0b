"""Templates in a command: each value becomes one word of the shell, whatever is in it.

Inside quotes, backticks, here-documents and arithmetic no quoting of ours would hold, so templates are refused there.
Data that is more than a word belongs into the step's `input`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.core.binding_header import one_line
from windlass.core.binding_read import Pieces, paths_of
from windlass.core.binding_value import filled
from windlass.core.expression_path import Path
from windlass.core.facts import Facts
from windlass.errors import Invalid

QUOTES = "'\"`"
UNQUOTABLE = ("<<", "((")


@dataclass(frozen=True, slots=True)
class Command:
    pieces: Pieces

    @classmethod
    def of(cls, pieces: Pieces) -> "Command":
        shell = _Shell()
        for piece in pieces:
            if isinstance(piece, Path):
                shell.check(piece)
            else:
                shell.read(piece)
        return cls(pieces)

    def value(self, facts: Facts) -> str:
        return filled(facts, self.pieces, _word)

    def paths(self) -> Iterator[Path]:
        return paths_of(self.pieces)


class _Shell:
    """Reads along as a shell would, as far as quotes go. Where it is not sure it takes a template for unsafe."""

    def __init__(self) -> None:
        self._quote: str | None = None
        self._escaped = False
        self._sign: str | None = None  # behind which no quoting holds

    def read(self, text: str) -> None:
        self._sign = self._sign or next((sign for sign in UNQUOTABLE if sign in text), None)
        for character in text:
            if self._escaped:
                self._escaped = False
            elif character == "\\" and self._quote != "'":
                self._escaped = True
            elif character == self._quote:
                self._quote = None
            elif self._quote is None and character in QUOTES:
                self._quote = character

    def check(self, path: Path) -> None:
        quote = "\\" if self._escaped else self._quote
        if quote is not None:
            raise Invalid(f"{{{{{path.text}}}}} stands inside {quote}: leave the quotes out, it is quoted for you")
        if self._sign is not None:
            raise Invalid(f"{{{{{path.text}}}}} stands after {self._sign}, where no quoting holds: put it into `input`")


def _word(facts: Facts, path: Path) -> str:
    return "'" + one_line(facts, path).replace("'", "'\"'\"'") + "'"
