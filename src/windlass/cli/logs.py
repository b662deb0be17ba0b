"""Configures logging to stderr: plain lines, or JSON for log collectors."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from windlass.cli.output import block
from windlass.errors import Invalid
from windlass.settings import Settings

FORMATS = ("text", "json")


def configure(settings: Settings, *, log_format: str | None = None, brief: bool = False) -> None:
    """Set up logging. `brief` is for short-lived commands: only warnings, without time and logger."""
    chosen = log_format or settings.log_format
    if chosen not in FORMATS:
        raise Invalid(f"log-format is {chosen!r}: it must be one of {', '.join(FORMATS)}", field="log-format")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if chosen == "json" else Brief() if brief else Lines())
    level = logging.getLevelNamesMapping()[settings.log_level]
    logging.basicConfig(level=max(level, logging.WARNING) if brief else level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    logging.getLogger("uvicorn").setLevel(max(level, logging.WARNING))  # we log what it would log


class Lines(logging.Formatter):
    """2030-01-01T10:00:00.000Z INFO windlass.worker: message"""

    def format(self, record: logging.LogRecord) -> str:
        text = f"{_moment(record)} {record.levelname} {record.name}: {record.getMessage()}"
        if job := _job():
            text += f" [{job['job_type']} {job['job_id']} attempt {job['attempt']}]"
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        # Error messages have any origin and may contain control characters or line breaks: the former are escaped, and
        # lines after the first are indented, so that none looks like a separate record.
        return block(text).replace("\n", "\n    ")


class Brief(logging.Formatter):
    """warning: message"""

    def format(self, record: logging.LogRecord) -> str:
        return block(f"{record.levelname.lower()}: {record.getMessage()}")


class JsonLines(logging.Formatter):
    """One JSON object per line; inside a handler it includes the job."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _moment(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        } | _job()
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _job() -> dict[str, Any]:
    from windlass.effects.context import current

    context = current()
    return {"job_id": str(context.id), "job_type": context.type, "attempt": context.attempt} if context else {}
