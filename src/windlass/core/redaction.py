"""Masks the values of secrets in text and JSON: `[secret NAME]` replaces each value in every form it may be echoed in.

Encoders differ in which characters they escape, and how. Each character of a value is therefore matched in any of its
forms: unescaped, or escaped for JSON (once or twice), URLs, HTML, shells or Python. The same applies to each line of a
value, and to their base64, also within the base64 of a longer text (`Authorization: Basic`). Truncated text may begin
or end with a part of a value, which is masked, too. Values that were transformed in other ways (hashed, reversed,
encrypted) are not recognized.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from html.entities import codepoint2name
from typing import Any, NamedTuple
from urllib.parse import quote

SHORTEST = 4  # characters of a value; masking shorter ones would destroy unrelated text
LONGEST_PATTERN = 4096  # characters; longer values are searched for in their usual forms only
SHORTEST_INSIDE = 8  # base64 characters of a value within a longer text
SHORT_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "/": "/", '"': '"', "'": "'"}

_plain = re.compile(r"[A-Za-z0-9._~-]+")  # characters that no encoder changes
_runs = re.compile(r"\\+|[^\\]", re.DOTALL)


class Form(NamedTuple):
    """A string to search for, with a pattern if it may be escaped. `anchor` is a part that no encoder changes."""

    text: str
    anchor: str
    pattern: re.Pattern[str] | None

    def split(self, text: str) -> list[str]:
        if self.anchor not in text:
            return [text]
        pieces = text.split(self.text)
        return pieces if self.pattern is None else [part for piece in pieces for part in self.pattern.split(piece)]


class Redaction:
    """Masks the values of the secrets that one attempt uses."""

    def __init__(self, values: Mapping[str, str]) -> None:
        masks = {form: f"[secret {name}]" for name, value in values.items() for form in _forms(value)}
        # The longest first: a form may contain another one.
        self._masks = sorted(masks.items(), key=lambda mask: len(mask[0].text), reverse=True)

    def text(self, text: str) -> str:
        """Return the text with every value masked."""
        pieces = [text]  # of the text between the masks, so that masks are not searched for other values
        masks: list[str] = []
        for form, mask in self._masks:
            if form.anchor in text:
                pieces, masks = _split(pieces, masks, form, mask)
        before = after = ""
        for form, mask in self._masks:
            if not after and (length := _cut_at_end(pieces[-1], form.text)):
                pieces[-1], after = pieces[-1][:-length], mask
            if not before and (length := _cut_at_start(pieces[0], form.text)):
                pieces[0], before = pieces[0][length:], mask
        return before + "".join(map("".join, zip(pieces, [*masks, after], strict=True)))

    def json(self, value: Any) -> Any:
        """Return a JSON value with every secret masked in its strings, keys and numbers."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.json(member) for key, member in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            masked = self.text(digits := json.dumps(value))
            return value if masked == digits else masked
        return value


def _split(pieces: list[str], masks: list[str], form: Form, mask: str) -> tuple[list[str], list[str]]:
    """Mask one more form in each piece; return the new pieces and the masks between them."""
    new_pieces: list[str] = []
    new_masks: list[str] = []
    for n, piece in enumerate(pieces):
        parts = form.split(piece)
        new_pieces += parts
        new_masks += [mask] * (len(parts) - 1) + masks[n : n + 1]
    return new_pieces, new_masks


# Forms


@lru_cache(maxsize=64)
def _forms(value: str) -> tuple[Form, ...]:
    parts = {value, value.strip(), *map(str.strip, value.splitlines())}
    texts = {text for part in parts if len(part) >= SHORTEST for text in (part, *_usual(part), *_base64(part.encode()))}
    return tuple(map(_form, texts))


def _usual(text: str) -> Iterator[str]:
    """Yield the usual escaped forms, used for strings too long for a pattern and to recognize truncated values."""
    escaped = json.dumps(text)[1:-1]
    yield from (escaped, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(escaped)[1:-1], quote(text, safe=""))


def _form(text: str) -> Form:
    if _plain.fullmatch(text) or len(text) > LONGEST_PATTERN:
        return Form(text, text, None)
    runs = _runs.findall(text)
    before = ["", *runs]
    pattern = "".join(_any_form(run, after[:1] == "\\") for run, after in zip(runs, before, strict=False))
    return Form(text, max(_plain.findall(text), key=len, default=""), re.compile(pattern))


@lru_cache(maxsize=1024)
def _any_form(run: str, after_backslash: bool = False) -> str:
    """Return a pattern for all forms of a character, or of a run of backslashes.

    The pattern of a run also consumes the backslash that begins the escape of the next character; in the pattern of
    that character the backslash is therefore optional.

    The groups are atomic: without backtracking the time does not explode, whatever the value and the text are. The
    usual forms, which such a group may match differently, are searched for exactly.
    """
    if run[0] == "\\":
        return rf"(?>\\{{{len(run)},{4 * len(run)}}}|(?i:{'%(?:25)?5c' * len(run)})|(?i:{'&#(?:92|x5c);' * len(run)}))"
    if _plain.fullmatch(run):
        return re.escape(run)
    number, data, slashes = ord(run), run.encode(), r"\\{0,3}" if after_backslash else r"\\{1,3}"
    units = run.encode("utf-16-be").hex(" ", 2).split()
    forms = [
        "".join(f"%(?:25)?{byte:02x}" for byte in data),
        slashes + r"\\{1,3}".join(f"u{unit}" for unit in units),
        f"{slashes}U{number:08x}",
        f"&#(?:0*{number}|x0*{number:x});",
    ]
    if number < 256:
        forms.append(f"{slashes}x{number:02x}")
    if run in SHORT_ESCAPES:
        forms.append(f"{slashes}{SHORT_ESCAPES[run]}")
    if number in codepoint2name:
        forms.append(f"&{codepoint2name[number]};")
    exact = [re.escape(run), re.escape(data.decode("latin-1"))]  # the second: UTF-8 of a response declared as Latin-1
    if run == " ":
        exact.append(r"\+")
    if run == "'":
        exact = [r"'\\''", "'\"'\"'", "&apos;", *exact]  # within single quotes of a shell
    return f"(?>(?i:{'|'.join(forms)})|{'|'.join(exact)})"


def _base64(data: bytes) -> Iterable[str]:
    """Yield the base64 of the data, and the digits that the data determines in the base64 of any longer data."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(data).decode()
        yield from (whole, whole.rstrip("="))
        for before in range(3):  # bytes before the data in its group of three
            digits = encode(bytes(before) + data).decode()
            inside = digits[(8 * before + 5) // 6 : 8 * (before + len(data)) // 6]
            if len(inside) >= SHORTEST_INSIDE:
                yield inside


def _cut_at_end(text: str, form: str) -> int:
    """Return the length of the longest prefix of the form with which the text ends; 0 if there is none."""
    start = text.find(form[:SHORTEST], max(len(text) - len(form) + 1, 0))
    while start >= 0:
        if form.startswith(text[start:]):
            return len(text) - start
        start = text.find(form[:SHORTEST], start + 1)
    return 0


def _cut_at_start(text: str, form: str) -> int:
    """Return the length of the longest suffix of the form with which the text begins; 0 if there is none."""
    end = text.rfind(form[-SHORTEST:], 0, len(form) - 1)
    while end >= 0:
        length = end + SHORTEST
        if form.endswith(text[:length]):
            return length
        end = text.rfind(form[-SHORTEST:], 0, length - 1)
    return 0
