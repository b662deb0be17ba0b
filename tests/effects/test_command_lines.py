"""The output of a command becomes log lines, whatever it contains and however much it is."""

import asyncio
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effects.command_harness import CapturedLines, lines_of, perform, succeeded
from windlass.core.jobs.job import MAX_LINES
from windlass.effects.command.process import MAX_LINE, Lines, readable


async def test_lines_have_the_level_of_their_stream() -> None:
    lines = await lines_of("echo one; echo two >&2; echo; printf 'no end'")
    assert [line for level, line in lines if level == "INFO"] == ["one", "", "no end"]
    assert [line for level, line in lines if level == "WARNING"] == ["two"]


async def test_lines_are_captured_while_the_command_runs(tmp_path: Path) -> None:
    door = tmp_path / "door"
    os.mkfifo(door)
    captured = CapturedLines()
    running = asyncio.create_task(perform(f"echo ready; read word < '{door}'; echo got $word", captured))
    await captured.one("ready")
    assert not running.done()
    await asyncio.to_thread(door.write_text, "it\n")
    succeeded(await running)
    assert captured.lines == [("INFO", "ready"), ("INFO", "got it")]


async def test_a_long_line_is_truncated() -> None:
    (level, line), after = await lines_of("head -c 9000 /dev/zero | tr '\\0' x; echo; echo next")
    assert (level, line, after) == ("INFO", "x" * MAX_LINE, ("INFO", "next"))


async def test_bytes_that_are_not_text_are_made_printable() -> None:
    assert await lines_of("printf 'a\\000b\\377c\\r\\n'") == [("INFO", "a\\x00b\ufffdc")]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", ""),
        ("é".encode() * 5000, "é" * 4096),
        (b"x" + "é".encode() * 5000, "x" + "é" * 4095),  # not half a character
        (b"\xf0\x9f\x92", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd" * 3),
        (b"\x00" * 5000, "\\x00" * 2048),
    ],
)
def test_lines_are_decoded_and_truncated_at_character_boundaries(line: bytes, text: str) -> None:
    assert readable(line) == text


@pytest.mark.parametrize("run", ["yes", "yes ''", "cat /dev/zero", "yes | tr -d '\\n'"])
@pytest.mark.parametrize("stream", [1, 2])
async def test_large_output_uses_little_memory(run: str, stream: int) -> None:
    captured = CapturedLines()
    tracemalloc.start()
    try:
        succeeded(await perform(f"({run}) | head -c 30000000 >&{stream}; echo; echo 7", captured))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
    assert len(captured.lines) <= 2 * (MAX_LINES + 1)


async def test_the_output_is_found_after_more_lines_than_are_kept() -> None:
    captured = CapturedLines()
    assert succeeded(await perform("yes | head -n 200000; echo 7; echo; echo", captured)) == 7
    assert captured.lines == [("INFO", "y")] * (MAX_LINES + 1)


CHUNKS = st.lists(st.text("ab \r\n", max_size=12).map(str.encode), max_size=30)


@given(CHUNKS, st.integers(0, MAX_LINES + 1))
def test_the_last_line_does_not_depend_on_chunk_boundaries(chunks: list[bytes], before: int) -> None:
    kept: list[str] = []
    lines = Lines("INFO", lambda _, line: kept.append(line))
    for _ in range(before):
        lines.feed(b"\n")
    for chunk in chunks:
        lines.feed(chunk)
    lines.finish()
    expected = [line.rstrip("\r") for line in b"".join(chunks).decode().split("\n")]
    filled = [line for line in expected if line.strip()]
    assert lines.last.decode().strip() == (filled[-1].strip() if filled else "")
    assert not lines.last_is_cut
    if before + len(expected) <= MAX_LINES:
        assert kept[before:] == (expected if b"".join(chunks)[-1:] not in (b"", b"\n") else expected[:-1])


@pytest.mark.parametrize("before", [0, MAX_LINES + 1])
@pytest.mark.parametrize("size", [1, 3, 64])
def test_a_line_longer_than_the_buffer_is_marked_as_truncated(before: int, size: int) -> None:
    lines = Lines("INFO", lambda *_: None, room=10)
    data = b"\n" * before + b"short\n" + b"x" * 11
    for start in range(0, len(data), size):
        lines.feed(data[start : start + size])
    lines.finish()
    assert (lines.last, lines.last_is_cut) == (b"x" * 10, True)
