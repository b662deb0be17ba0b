"""Templates in a header. The result must be one line: a line break would begin another header, or the body."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.core.expressions.paths import Path
from windlass.core.expressions.scope import Facts
from windlass.core.templates.parser import Pieces, paths_of
from windlass.core.templates.value import filled, refusal, text_at

_control = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]").search


@dataclass(frozen=True, slots=True)
class Header:
    pieces: Pieces

    def value(self, facts: Facts) -> str:
        return filled(facts, self.pieces, one_line)

    def paths(self) -> Iterator[Path]:
        return paths_of(self.pieces)


def one_line(facts: Facts, path: Path) -> str:
    text = text_at(facts, path)
    if _control(text):
        raise refusal(path, "its value has a line break, a NUL or another control character")
    return text
