"""Masks the values of secrets in text and JSON: `[secret NAME]` replaces each value, in every form it may be echoed in.

The forms are the value itself, its lines, and both of them escaped (JSON, URLs, HTML, shells, Python) and in base64,
also inside the base64 of a longer text (`Authorization: Basic`). Text that was cut may end or begin with a part of a
form: such a part is masked, too. What no list of forms covers (a hash, a reversed or
re-encrypted value) is not recognized.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote, quote_plus

SHORTEST = 4  # characters of a value; masking shorter ones would destroy unrelated text
LONGEST_TWICE = 4096  # characters of a value that is also recognized if it was encoded twice
SHORTEST_INSIDE = 8  # characters of base64 inside that of a longer text
URL_SAFE = ("", "/", "/?", "!$'()*,", "!$'()*,:@/?;", "-._~!$'()*,:@/?;&=+")  # what encoders of URLs leave alone

Encode = Callable[[str], str]


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _escaped_ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _slashes(text: str) -> str:
    return _escaped_ascii(text).replace("/", "\\/")


def _within_html(escaped: str) -> str:
    """Escape as encoders do whose JSON may be put into HTML."""
    return re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", escaped)


def _escaped_strictly(text: str) -> str:
    """Escape all but letters, digits and some punctuation, in upper case."""
    ascii_ = re.sub(r"\\u[0-9a-f]{4}", lambda match: "\\u" + match[0][2:].upper(), _escaped_ascii(text))
    return re.sub(r"""[<>&+'`]|\\\"""", lambda match: f"\\u{ord(match[0][-1]):04X}", ascii_)


def _lower(text: str) -> str:
    return re.sub("%..", lambda match: match[0].lower(), text)


def _numbered_entities(text: str) -> str:
    return html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


JSON_ENCODERS: tuple[Encode, ...] = (
    str,
    _escaped,
    _escaped_ascii,
    _slashes,
    lambda text: _within_html(_escaped(text)),
    lambda text: _within_html(_escaped_ascii(text)),
    _escaped_strictly,
)
ENCODERS: tuple[Encode, ...] = (
    *JSON_ENCODERS,
    quote_plus,
    *(partial(quote, safe=safe) for safe in URL_SAFE),
    *(lambda text, safe=safe: _lower(quote(text, safe=safe)) for safe in URL_SAFE),
    html.escape,
    partial(html.escape, quote=False),
    _numbered_entities,
    lambda text: html.escape(text).replace("&#x27;", "&#39;"),
    lambda text: text.replace("'", "'\"'\"'"),  # a shell's single quotes, in two ways
    lambda text: text.replace("'", "'\\''"),
    lambda text: repr(text)[1:-1],
    lambda text: repr(text + "'\"")[1:-4],
    lambda text: text.replace("\x00", "\\x00"),  # as it is stored
    lambda text: text.encode().decode("latin-1"),  # a response that declares another charset than it has
)
AGAIN: tuple[Encode, ...] = (*JSON_ENCODERS, partial(quote, safe=""))  # JSON in JSON, base64 in a URL


class Redaction:
    """The values of the secrets that one attempt uses, by name."""

    def __init__(self, values: Mapping[str, str]) -> None:
        names = {form: name for name, value in values.items() for form in _forms(value)}
        # The longest first: a form may contain another one.
        self._masks = [(form, f"[secret {names[form]}]") for form in sorted(names, key=len, reverse=True)]

    def text(self, text: str) -> str:
        """Return the text with every value masked."""
        pieces = [text]  # of the text, with a mask between each two: masks are not searched for other values
        masks: list[str] = []
        for form, mask in self._masks:
            if form in text:
                pieces, masks = _split(pieces, masks, form, mask)
        before = after = ""
        for form, mask in self._masks:
            if not after and (length := _cut_at_end(pieces[-1], form)):
                pieces[-1], after = pieces[-1][:-length], mask
            if not before and (length := _cut_at_start(pieces[0], form)):
                pieces[0], before = pieces[0][length:], mask
        return before + "".join(map("".join, zip(pieces, [*masks, after], strict=True)))

    def json(self, value: Any) -> Any:
        """Return a JSON value with every value masked: in its strings, keys and numbers."""
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


def _split(pieces: list[str], masks: list[str], form: str, mask: str) -> tuple[list[str], list[str]]:
    """Return the pieces between the masks after one more form is masked in each of them."""
    new_pieces: list[str] = []
    new_masks: list[str] = []
    for n, piece in enumerate(pieces):
        parts = piece.split(form)
        new_pieces += parts
        new_masks += [mask] * (len(parts) - 1) + masks[n : n + 1]
    return new_pieces, new_masks


@lru_cache(maxsize=64)
def _forms(value: str) -> frozenset[str]:
    lines = [line for line in map(str.strip, value.splitlines()) if len(line) >= SHORTEST]
    parts = {value, value.strip(), *lines}
    return frozenset(form for part in parts if len(part) >= SHORTEST for form in _encoded(part))


def _encoded(text: str) -> Iterator[str]:
    forms = {encode(text) for encode in ENCODERS} | set(_base64(text.encode()))
    yield from forms
    if len(text) <= LONGEST_TWICE:
        for form in forms:
            yield from {encode(form) for encode in AGAIN}


def _base64(data: bytes) -> Iterable[str]:
    """Yield the base64 of the data, and the digits that it determines inside the base64 of any longer data."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(data).decode()
        yield from (whole, whole.rstrip("="))
        for before in range(3):  # bytes of the longer data in the same group of three
            digits = encode(bytes(before) + data).decode()
            inside = digits[(8 * before + 5) // 6 : 8 * (before + len(data)) // 6]
            if len(inside) >= SHORTEST_INSIDE:
                yield inside


def _cut_at_end(text: str, form: str) -> int:
    """Return the length of the beginning of the form that the text ends with; 0 if there is none."""
    start = text.find(form[:SHORTEST], max(len(text) - len(form) + 1, 0))
    while start >= 0:
        if form.startswith(text[start:]):
            return len(text) - start
        start = text.find(form[:SHORTEST], start + 1)
    return 0


def _cut_at_start(text: str, form: str) -> int:
    """Return the length of the end of the form that the text begins with; 0 if there is none."""
    end = text.rfind(form[-SHORTEST:], 0, len(form) - 1)
    while end >= 0:
        length = end + SHORTEST
        if form.endswith(text[:length]):
            return length
        end = text.rfind(form[-SHORTEST:], 0, length - 1)
    return 0
