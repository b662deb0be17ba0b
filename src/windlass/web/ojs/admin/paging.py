"""Pages of the operators' lists: by number, unlike those of producers and workers."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from windlass.web.ojs.errors import INVALID_REQUEST, Refusal

PER_PAGE, MOST = 20, 100


def sliced(request: Request, items: Sequence[Any]) -> dict[str, Any]:
    """The page that was asked for, of a list that is whole."""
    page, size = _number(request, "page", 1, 100_000), _number(request, "per_page", PER_PAGE, MOST)
    shown = items[(page - 1) * size : page * size]
    more = page * size < len(items)
    return {"items": shown, "pagination": {"total": len(items), "page": page, "per_page": size, "has_more": more}}


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or int(text[:9]) < 1:
        raise Refusal(INVALID_REQUEST, f"{name} must be a whole number from 1", details={"field": name})
    return min(int(text[:9]), most)
