"""Pages of lists."""

from typing import Any


def pagination(shown: int, total: int, limit: int, offset: int) -> dict[str, Any]:
    more = offset + shown < total
    found: dict[str, Any] = {"total": total, "limit": limit, "offset": offset, "has_more": more}
    return {**found, "next_cursor": str(offset + shown)} if more else found
