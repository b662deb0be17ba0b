"""Templates in a URL. A value is confined to its part of the URL: it cannot change the host, path or query around it.

A template at the start is the base, which the author trusts: it is used unchanged, and the sender must check its scheme
and host. Later values are percent-encoded; in the host only the characters of a host are allowed. A value that ends a
host after literal text (`https://api.example.com{{x}}`) could select another host and is rejected.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import quote

from windlass.core.expressions.scope import Facts, Path
from windlass.core.templates.references import Form, Span, join, refer
from windlass.core.templates.template import Binding, Pieces, compile_text, paths_of, refusal, text_at, value_at

MAX_VALUE = 8192
STAND_IN = "\ue000"  # placeholder for a template: a private-use character, not expected in a URL
UNBOUNDED = (
    "it would determine the host: write a / before the template if it is a path, or end the host with your own domain"
)
HOLLOW_PART = "a segment of the URL's path would be empty, . or .."
HOLLOW = frozenset({"", ".", ".."})  # path segments that are empty or refer to this or the parent directory

_host = re.compile(r"[A-Za-z0-9._:\[\]-]+").fullmatch
_unfit = re.compile(r"[\x00-\x20\x7f]").search
_end_of_path = re.compile(r"[?#]")
_own_domain = re.compile(r"[^/?#:]*\.[A-Za-z0-9-]+(?:[/?#:]|\Z)").match  # literal text that ends the host with a domain
_port = re.compile(r"[0-9]{1,5}").fullmatch


class Place(Enum):
    TEXT = auto()  # literal text
    HOST = auto()
    HOST_END = auto()  # after literal text of the host, and not followed by a literal domain
    PORT = auto()
    PATH = auto()
    QUERY = auto()


FORMS = {Place.HOST: Form.HOST, Place.PORT: Form.PORT, Place.PATH: Form.QUOTED, Place.QUERY: Form.QUOTED}
PLACES = {Form.HOST: Place.HOST, Form.PORT: Place.PORT, Form.QUOTED: Place.PATH}


@dataclass(frozen=True, slots=True)
class Url:
    base: Path | None
    tail: tuple[tuple[str | Path, Place], ...]
    hollow: int  # the number of `HOLLOW` segments in the literal text

    @classmethod
    def of(cls, pieces: Pieces) -> "Url":
        base = pieces[0] if pieces and isinstance(pieces[0], Path) else None
        rest = list(pieces if base is None else pieces[1:])
        tail: list[tuple[str | Path, Place]] = []
        before = ""
        for n, piece in enumerate(rest):
            place = Place.TEXT
            if isinstance(piece, Path):
                place = _place(_behind(base, before))
                if place is Place.HOST:
                    place = _host_place(base, _behind(base, before), rest[n + 1 :])
            tail.append((piece, place))
            before += piece if isinstance(piece, str) else STAND_IN
        return cls(base, tuple(tail), _hollow(_behind(base, before)))

    def value(self, facts: Facts) -> str:
        base = "" if self.base is None else _base(facts, self.base)
        tail = join([piece if isinstance(piece, str) else _fit(facts, piece, place) for piece, place in self.tail])
        if _hollow(_behind(self.base, tail)) > self.hollow:
            raise refusal(self._first(Place.PATH), HOLLOW_PART)
        return join([base, tail])

    def paths(self) -> Iterator[Path]:
        if self.base is not None:
            yield self.base
        yield from paths_of([piece for piece, _ in self.tail])

    def unbounded(self) -> Path | None:
        """Return the first template that could select another host, or None."""
        return next((piece for piece, place in self.tail if isinstance(piece, Path) and place is Place.HOST_END), None)

    def _first(self, place: Place) -> Path:
        return next(piece for piece, where in self.tail if isinstance(piece, Path) and where is place)


def compile_url(text: str) -> Binding:
    """Compile a URL. It resolves to a string; values in the path or query are percent-encoded."""
    return compile_text(text, Url.of)


def _behind(base: Path | None, text: str) -> str:
    """Return the text after the scheme; a base already contains the scheme."""
    return text if base is not None else text.partition("://")[2]


def _place(behind: str) -> Place:
    """Return the part of the URL that a template is in, given the text before it."""
    if _end_of_path.search(behind):
        return Place.QUERY
    return Place.PATH if "/" in behind else Place.HOST


def _host_place(base: Path | None, before: str, after: Pieces) -> Place:
    if before.endswith(":"):
        return Place.PORT
    if base is None and not before.replace(STAND_IN, ""):
        return Place.HOST  # the author lets values determine the whole host
    rest = "".join(piece if isinstance(piece, str) else STAND_IN for piece in after)
    return Place.HOST if _own_domain(rest) else Place.HOST_END


def _base(facts: Facts, path: Path) -> str:
    if path.root == "secrets":
        return refer(path, Form.BASE)
    value = value_at(facts, path)
    if not isinstance(value, str) or not value:
        raise refusal(path, "a URL must begin with a string that is not empty")
    return _checked_base(path, value)


def _checked_base(path: Path, value: str) -> str:
    if _unfit(value):
        raise refusal(path, "its value has a space or a control character")
    return value


def _fit(facts: Facts, path: Path, place: Place) -> str:
    if path.root == "secrets" and place in FORMS:
        return refer(path, FORMS[place])
    if value_at(facts, path) is None:
        raise refusal(path, "its value is null, which cannot be part of a URL")
    return _fitted(path, text_at(facts, path), place)


def reveal(url: str, spans: Sequence[Span], values: Mapping[str, str]) -> str:
    """Return a stored URL with the values of its secrets inserted, by the same rules as values of the run."""
    paths = [Path(f"secrets.{span.name}", "secrets", span.name) for span in spans]
    base = paths[0] if spans[0].form is Form.BASE else None
    head = "" if base is None else _checked_base(base, values[base.name])
    start = end = 0 if base is None else spans[0].end
    tail = ""
    for span, path in zip(spans, paths, strict=True):
        if path is not base:
            tail += url[end : span.start] + _fitted(path, values[path.name], PLACES[span.form])
            end = span.end
    tail += url[end:]
    if _hollow(_behind(base, tail)) > _hollow(_behind(base, url[start:])):
        raise refusal(paths[-1], HOLLOW_PART)
    return head + tail


def _fitted(path: Path, text: str, place: Place) -> str:
    if len(text) > MAX_VALUE:
        raise refusal(path, f"its value is {len(text)} characters long, the limit in a URL is {MAX_VALUE}")
    if place is Place.HOST_END:
        raise refusal(path, UNBOUNDED)
    if place is Place.PORT:
        if not _port(text):
            raise refusal(path, "its value is not a port number")
        return text
    if place is Place.HOST:
        if not _host(text):
            raise refusal(path, "its value is not valid in a host name: if it is a path, write a / before the template")
        return text
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise refusal(path, "its value contains an unpaired surrogate, which is not valid Unicode") from None


def _hollow(behind: str) -> int:
    path = _end_of_path.split(behind, maxsplit=1)[0]
    segments = path.lower().replace("%2e", ".").split("/")[1:]
    return sum(segment in HOLLOW for segment in segments)
