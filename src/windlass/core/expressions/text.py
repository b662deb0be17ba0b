"""Quoted strings, single or double, of expressions, paths and templates."""

import re

from windlass.errors import InvalidExpression

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}

_escape = re.compile(r"\\(.)", re.DOTALL)


def unquoted(text: str, source: str, start: int) -> str:
    """Return the value of a quoted string that begins at `start` of the source."""
    if "\\" not in text:
        return text[1:-1]
    for match in _escape.finditer(text):
        if match[1] not in ESCAPES:
            problem = "a backslash stands before another, a quote, n, r or t; for itself, write it twice"
            raise InvalidExpression(problem, source=source, column=start + match.start() + 1)
    return _escape.sub(lambda match: ESCAPES[match[1]], text[1:-1])
