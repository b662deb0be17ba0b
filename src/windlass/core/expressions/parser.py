"""Splits an expression into tokens and parses them into the syntax tree.

Errors have the column and, for common mistakes, the fix. One function per precedence level, lowest first:

any     := all ('||' all)*
all     := compare ('&&' compare)*
compare := unary (('==' | '!=' | '>' | '>=' | '<' | '<=' | 'in') unary)?
unary   := '!' unary | '(' any ')' | literal | list | path | function '(' (any (',' any)*)? ')'
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from math import isfinite
from typing import Any, TypeVar

from windlass.core.expressions.nodes import FUNCTIONS, Call, Compare, Every, Literal, Node, Not, Reference, Some
from windlass.core.expressions.scope import LONGEST_WORD, after_space, match_quoted, nearest, read_path, unquoted
from windlass.errors import InvalidExpression

T = TypeVar("T")

MAX_LENGTH = 4096
MAX_DEPTH = 32
COMPARISONS = frozenset({"==", "!=", ">", ">=", "<", "<=", "in"})
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
    "'": "the string is not closed: the closing quote is missing",
    '"': "the string is not closed: the closing quote is missing",
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


_number = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![\w.$@-])").match
_sign = re.compile(r"==|!=|>=|<=|&&|\|\||[<>!()\[\],]").match
_word = re.compile(r"[^\W\d][\w$@-]*").match
_call = re.compile(r"\s*\(").match
_fragment = re.compile(r"[^\s()\[\],]+|.", re.DOTALL).match


def tree(source: str) -> Node:
    reader = _Reader(source)
    root = reader.any()
    reader.finish()
    return root


def tokens(source: str) -> list[Token]:
    if len(source) > MAX_LENGTH:
        raise InvalidExpression(
            f"it is {len(source)} characters long, the limit is {MAX_LENGTH}", column=MAX_LENGTH + 1
        )
    result, at = [], after_space(source, 0)
    while at < len(source):
        token, end = _read_token(source, at)
        result.append(token)
        at = after_space(source, end)
    return [*result, Token(Kind.END, "the end", len(source.rstrip()) + 1)]


def _read_token(source: str, at: int) -> tuple[Token, int]:
    if match := _number(source, at):
        return Token(Kind.LITERAL, _as_number(match), at + 1), match.end()
    if match := match_quoted(source, at):
        return Token(Kind.LITERAL, unquoted(match.group(), at), at + 1), match.end()
    if match := _sign(source, at):
        return Token(Kind.SIGN, match.group(), at + 1), match.end()
    if match := _word(source, at):
        return _word_token(source, at, match)
    raise _unreadable(source, at)


def _word_token(source: str, at: int, match: re.Match[str]) -> tuple[Token, int]:
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


def _as_number(match: re.Match[str]) -> int | float:
    if match[1] is None and match[2] is None:
        return int(match.group())
    number = float(match.group())
    if not isfinite(number):
        raise InvalidExpression("the number is too large", column=match.start() + 1)
    return number


def _unreadable(source: str, at: int) -> InvalidExpression:
    match = _fragment(source, at)
    fragment = match.group() if match else ""
    problem = INSTEAD.get(fragment) or INSTEAD.get(fragment[:1]) or f"{fragment[:LONGEST_WORD]!r} is not valid here"
    return InvalidExpression(problem, column=at + 1)


class _Reader:
    def __init__(self, source: str) -> None:
        self._tokens = tokens(source)
        self._at = 0
        self._depth = 0

    def any(self) -> Node:
        return self._joined("||", self._all, Some)

    def finish(self) -> None:
        token = self._token
        if token.kind is Kind.END:
            return
        if token.value == ")":
            raise self._error("unmatched )")
        raise self._error(f"an operator such as == or && is missing before {_describe(token)}")

    def _all(self) -> Node:
        return self._joined("&&", self._compare, Every)

    def _joined(self, sign: str, item: Callable[[], Node], node: Callable[[tuple[Node, ...]], Node]) -> Node:
        items = [item()]
        while self._take(sign):
            items.append(item())
        return items[0] if len(items) == 1 else node(tuple(items))

    def _compare(self) -> Node:
        left = self._unary()
        sign = self._comparison()
        if sign is None:
            return left
        comparison = Compare(sign, left, self._unary())
        if self._token.kind is Kind.SIGN and self._token.value in COMPARISONS:
            raise self._error("comparisons cannot follow each other: join them with &&, or use parentheses")
        return comparison

    def _unary(self) -> Node:
        self._enter()
        if self._take("!"):
            node: Node = Not(self._unary())
        elif self._take("("):
            node = self.any()
            self._close(")")
        elif self._take("["):
            node = Literal(self._separated(self._item, "]"))
        else:
            node = self._operand()
        self._depth -= 1
        return node

    def _operand(self) -> Node:
        token = self._token
        match token.kind:
            case Kind.LITERAL:
                self._at += 1
                return Literal(token.value)
            case Kind.PATH:
                self._at += 1
                return Reference(token.value)
            case Kind.FUNCTION:
                return self._function(token)
            case _:
                raise self._error(f"a value is missing before {_describe(token)}")

    def _function(self, token: Token) -> Node:
        if token.value not in FUNCTIONS:
            raise self._error(f"unknown function {token.value!r}{nearest(token.value, list(FUNCTIONS))}")
        self._at += 2
        arguments = tuple(self._separated(self.any, ")"))
        arity = FUNCTIONS[token.value].arity
        if len(arguments) != arity:
            problem = f"{token.value}() takes {arity} value{'' if arity == 1 else 's'}, not {len(arguments)}"
            raise InvalidExpression(problem, column=token.column)
        return Call(token.value, arguments)

    def _separated(self, item: Callable[[], T], close: str) -> list[T]:
        """Read items between commas, up to the closing bracket."""
        if self._take(close):
            return []
        items = [item()]
        while self._take(","):
            items.append(item())
        self._close(close)
        return items

    def _item(self) -> Any:
        """Read an item of a list: literals only, so that the value of a list does not depend on the facts."""
        token = self._token
        if token.kind is not Kind.LITERAL:
            raise self._error("a list may contain numbers, strings, true, false and null")
        self._at += 1
        return token.value

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _take(self, sign: str) -> bool:
        token = self._tokens[self._at]
        if token.kind is not Kind.SIGN or token.value != sign:
            return False
        self._at += 1
        return True

    def _comparison(self) -> str | None:
        token = self._token
        if token.kind is not Kind.SIGN or token.value not in COMPARISONS:
            return None
        self._at += 1
        return str(token.value)

    def _close(self, sign: str) -> None:
        if not self._take(sign):
            raise self._error(f"a {sign} is missing before {_describe(self._token)}")

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"it is nested deeper than {MAX_DEPTH} levels")

    def _error(self, problem: str) -> InvalidExpression:
        return InvalidExpression(problem, column=self._token.column)


def _describe(token: Token) -> str:
    match token.kind:
        case Kind.END:
            return "the end"
        case Kind.PATH:
            return "the path"
        case Kind.LITERAL:
            return "the value"
        case _:
            return str(token.value)
