"""Texts in quotes, single or double, as expressions, paths and templates have them."""

import re

from windlass.errors import InvalidExpression

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}

_escape = re.compile(r"\\(.)", re.DOTALL)


def unquoted(text: str, source: str, start: int) -> str:
    """What a text in quotes says; it stands at `start` of the source."""
    if "\\" not in text:
        return text[1:-1]
    for match in _escape.finditer(text):
        if match[1] not in ESCAPES:
            problem = "a backslash stands before another, a quote, n, r or t; for itself, write it twice"
            raise InvalidExpression(problem, source=source, column=start + match.start() + 1)
    return _escape.sub(lambda match: ESCAPES[match[1]], text[1:-1])
