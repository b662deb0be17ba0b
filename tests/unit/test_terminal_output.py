"""The output of commands: stored strings cannot control the terminal, forge a log line, or run when pasted."""

import asyncio
import json
import logging
import sys
from datetime import timedelta
from typing import Any

import click
import pytest

from windlass.cli import runner
from windlass.cli.commands.workflows import _warn
from windlass.cli.logs import Lines
from windlass.cli.output import note, show_json
from windlass.engine.doctor import judge_lines
from windlass.errors import Invalid
from windlass.store.doctor import Waiting

HOSTILE = "a\x1b[2J\x9b2J\u202eb\u2066\nfake"
CONTROL_CHARACTERS = ("\x1b", "\x9b", "\u202e", "\u2066")


def harmless(text: str) -> bool:
    return not any(mark in text for mark in CONTROL_CHARACTERS)


def test_json_is_ascii_on_a_terminal_and_unchanged_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show_json({"name": HOSTILE})
    assert "\u202e" in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_json({"name": HOSTILE})
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert json.loads(printed) == {"name": HOSTILE}


def test_names_and_server_messages_are_escaped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_reach: Any, thing: str) -> None:
        if thing == "bad":
            raise Invalid(HOSTILE)

    monkeypatch.setattr(runner, "backend", lambda action: asyncio.run(action(None)))
    with pytest.raises(click.exceptions.Exit):
        runner.each(["bad", HOSTILE], "paused", fails, json=False)
    _warn([HOSTILE])
    note(HOSTILE)
    printed = capsys.readouterr()
    assert "paused a" in printed.out
    assert harmless(printed.out + printed.err)
    assert [line for line in printed.err.splitlines() if line == "fake"] == ["fake"]  # only `note` keeps line breaks


def test_a_message_cannot_forge_a_log_line() -> None:
    text = "started\n2030-01-01T00:00:00.000Z INFO windlass: all is well\r\n\x1b[2J"
    record = logging.LogRecord("windlass", logging.INFO, "", 0, text, None, None)
    first, *more = Lines().format(record).split("\n")
    assert first.endswith("windlass: started")
    assert all(line.startswith("    ") for line in more)
    assert harmless(first + "".join(more))


def test_a_command_suggested_by_doctor_is_safe_to_paste() -> None:
    def fix(*, paused: bool) -> str:
        waiting = Waiting(type="a.b.v1", queue="q; rm -rf ~", paused=paused, waits=timedelta(hours=1))
        [finding] = judge_lines([waiting], [], {})
        return finding.fix or ""

    assert fix(paused=True) == "windlass queues resume 'q; rm -rf ~'"
    assert fix(paused=False).endswith("--queue 'q; rm -rf ~'")
