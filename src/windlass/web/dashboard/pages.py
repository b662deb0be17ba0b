"""Which addresses are the dashboard's. All views are one page: the browser decides what it shows at which of them."""

VIEWS = frozenset(
    {"", "workflows", "runs", "schedules", "queues", "workers", "dead-letters", "jobs"}  # beginnings of paths
)
ASSETS = "/assets/"


def is_view(path: str) -> bool:
    """Whether the page belongs at this path."""
    return path.removeprefix("/").partition("/")[0] in VIEWS


def is_public(path: str) -> bool:
    """What a browser may load without a key: the program, which holds no data; it asks for the key itself."""
    return is_view(path) or path.startswith(ASSETS)
