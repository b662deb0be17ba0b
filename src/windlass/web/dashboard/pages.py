"""Which paths belong to the dashboard. They all serve the same page; the browser picks the view by the path."""

VIEWS = frozenset(  # beginnings of paths
    {"", "workflows", "runs", "schedules", "queues", "workers", "dead-letters", "quarantine", "jobs"}
)
ASSETS = "/assets/"


def is_view(path: str) -> bool:
    """Whether the page belongs at this path."""
    return path.removeprefix("/").partition("/")[0] in VIEWS


def is_public(path: str) -> bool:
    """What a browser may load without a key: the program, which holds no data; it asks for the key itself."""
    return is_view(path) or path.startswith(ASSETS)
