"""The tokens of an expression. Invalid ones are rejected with their column and, for common mistakes, with the fix."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from math import isfinite
from typing import Any

from windlass.core.expressions.paths import LONGEST_WORD, read_path
from windlass.core.expressions.text import QUOTED, unquoted
from windlass.errors import InvalidExpression

MAX_LENGTH = 4096

WORDS = {"true": True, "false": False, "null": None}
INSTEAD = {
    "and": "write && instead of `and`",
    "or": "write || instead of `or`",
    "not": "write ! instead of `not`",
    "=": "write == to compare",
    "&": "write && for `and`",
    "|": "write || for `or`",
    "{": "an `if` needs no {{ }}: write the path alone",
    "$": "an `if` needs no ${{ }}: write the path alone",
    "'": "the text is not closed: its quote is missing",
    '"': "the text is not closed: its quote is missing",
}


class Kind(Enum):
    LITERAL = auto()
    PATH = auto()
    FUNCTION = auto()
    SIGN = auto()  # operators, brackets, commas, `in`
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    value: Any
    column: int


_space = re.compile(r"\s*").match
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![\w.$@-])").match
_quoted = re.compile(QUOTED, re.DOTALL).match
_sign = re.compile(r"==|!=|>=|<=|&&|\|\||[<>!()\[\],]").match
_word = re.compile(r"[^\W\d][\w$@-]*").match
_call = re.compile(r"\s*\(").match
_lump = re.compile(r"[^\s()\[\],]+|.", re.DOTALL).match


def tokens(source: str) -> list[Token]:
    if len(source) > MAX_LENGTH:
        raise InvalidExpression(
            f"it is {len(source)} characters long, the limit is {MAX_LENGTH}", source=source, column=MAX_LENGTH + 1
        )
    found, at = [], _after_space(source, 0)
    while at < len(source):
        token, end = _token(source, at)
        found.append(token)
        at = _after_space(source, end)
    return [*found, Token(Kind.END, "the end", len(source.rstrip()) + 1)]


def _token(source: str, at: int) -> tuple[Token, int]:
    if match := _number(source, at):
        return Token(Kind.LITERAL, _as_number(match, source), at + 1), match.end()
    if match := _quoted(source, at):
        return Token(Kind.LITERAL, unquoted(match.group(), source, at), at + 1), match.end()
    if match := _sign(source, at):
        return Token(Kind.SIGN, match.group(), at + 1), match.end()
    if match := _word(source, at):
        return _named(source, at, match)
    raise _unreadable(source, at)


def _named(source: str, at: int, match: re.Match[str]) -> tuple[Token, int]:
    word, end = match.group(), match.end()
    if word in WORDS:
        return Token(Kind.LITERAL, WORDS[word], at + 1), end
    if word == "in":
        return Token(Kind.SIGN, word, at + 1), end
    if word in INSTEAD:
        raise _unreadable(source, at)
    if _call(source, end):
        return Token(Kind.FUNCTION, word, at + 1), end
    path, end = read_path(source, at)
    return Token(Kind.PATH, path, at + 1), end


def _as_number(match: re.Match[str], source: str) -> int | float:
    if match[1] is None and match[2] is None:
        return int(match.group())
    number = float(match.group())
    if not isfinite(number):
        raise InvalidExpression("the number is too large", source=source, column=match.start() + 1)
    return number


def _unreadable(source: str, at: int) -> InvalidExpression:
    match = _lump(source, at)
    lump = match.group() if match else ""
    problem = INSTEAD.get(lump) or INSTEAD.get(lump[:1]) or f"{lump[:LONGEST_WORD]!r} cannot be read"
    return InvalidExpression(problem, source=source, column=at + 1)


def _after_space(source: str, at: int) -> int:
    match = _space(source, at)
    return match.end() if match else at
