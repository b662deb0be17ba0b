"""The outcome of a step, by how its command ends."""

import asyncio
import json
from typing import Any

import pytest

from tests.effects.command_harness import CapturedLines, failed, lines_of, perform, succeeded


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("true", None),
        ("echo '{\"a\": [1, 2.5, null]}'", {"a": [1, 2.5, None]}),
        ("echo 42", 42),
        ("echo '\"text\"'", "text"),
        ("echo null", None),
        ("echo 1; echo 2", 2),
        ("echo 1; echo; echo '  '", 1),
        ("printf 1", 1),
        ("printf '1\\r\\n'", 1),
        ("echo 1; echo done", None),
        ("echo 1 >&2", None),
        ("echo NaN", None),
        ("echo 1e999", None),
        ("printf '\\377\\n'", None),
        ("printf '\"\\\\u0000\"'", None),
        ("printf '%065d' 0 | tr 0 '['; printf '%065d' 0 | tr 0 ']'", None),
    ],
)
async def test_the_last_line_is_the_output_if_it_is_json(run: str, expected: Any) -> None:
    assert succeeded(await perform(run)) == expected


@pytest.mark.parametrize("value", [0, None, "", [], {"deep": {"er": ["é", "💡"]}}])
async def test_the_content_of_the_output_file_is_the_output(value: Any) -> None:
    text = json.dumps(value)
    assert succeeded(await perform(f"echo '{text}' > \"$WINDLASS_OUTPUT\"; echo 1")) == value


async def test_an_empty_output_file_is_ignored() -> None:
    assert succeeded(await perform('echo > "$WINDLASS_OUTPUT"; echo 1')) == 1


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ('echo "{" > "$WINDLASS_OUTPUT"', "$WINDLASS_OUTPUT is not JSON: Expecting property name"),
        ('echo NaN > "$WINDLASS_OUTPUT"', "$WINDLASS_OUTPUT is not JSON: NaN is not a JSON number"),
        ('printf \'"\\\\u0000"\' > "$WINDLASS_OUTPUT"', "$WINDLASS_OUTPUT contains a NUL character"),
        ("printf '[\\377]' > \"$WINDLASS_OUTPUT\"", "$WINDLASS_OUTPUT is not JSON: it is not UTF-8 text (byte 1)"),
        ("printf '%065d' 0 | tr 0 '[' > \"$WINDLASS_OUTPUT\"", "$WINDLASS_OUTPUT is not JSON"),
        ('mkdir "$WINDLASS_OUTPUT"', "$WINDLASS_OUTPUT is not a file"),
        ('mkfifo "$WINDLASS_OUTPUT"', "$WINDLASS_OUTPUT is not a file"),
        ('ln -s /dev/zero "$WINDLASS_OUTPUT"', "$WINDLASS_OUTPUT is not a file"),
        ('truncate -s 268435457 "$WINDLASS_OUTPUT"', "$WINDLASS_OUTPUT is larger than 268435456 bytes"),
    ],
)
async def test_an_invalid_output_file_fails_the_step_permanently(run: str, told: str) -> None:
    error = failed(await perform(run), retryable=False)
    assert error["type"] == "Invalid"
    assert error["message"].startswith(told)


async def test_a_large_output_is_read_from_the_file() -> None:
    run = '(printf \'"\'; head -c 16777214 /dev/zero | tr "\\0" x; printf \'"\') > "$WINDLASS_OUTPUT"'
    assert len(succeeded(await perform(run))) == 16_777_214


async def test_a_last_line_of_up_to_a_megabyte_is_the_output() -> None:
    digits = "printf '\"'; head -c %d /dev/zero | tr \"\\0\" 7; printf '\"'"
    assert len(succeeded(await perform(digits % 1_048_574))) == 1_048_574
    captured = CapturedLines()
    assert succeeded(await perform("head -c 1048577 /dev/zero | tr '\\0' 7", captured)) is None
    assert captured.lines[-1][0] == "WARNING"
    assert "more than 1048576 bytes" in captured.lines[-1][1]


async def test_a_too_long_last_line_is_ignored_if_the_output_file_is_written() -> None:
    lines = await lines_of("echo 1 > \"$WINDLASS_OUTPUT\"; head -c 1048577 /dev/zero | tr '\\0' 7")
    assert [level for level, _ in lines] == ["INFO"]


@pytest.mark.parametrize(
    ("run", "code", "message"),
    [
        ("exit 3", 3, "exited with 3"),
        ("echo no such bucket >&2; echo >&2; exit 3", 3, "exited with 3: no such bucket"),
        ("echo out; false", 1, "exited with 1"),
        ("exit 255", 255, "exited with 255"),
        ("sh -c 'kill -KILL $$'; exit $?", 137, "exited with 137 (128 + SIGKILL)"),
        ("printf 'a\\000b\\377' >&2; exit 1", 1, "exited with 1: a\\x00b\ufffd"),
    ],
)
async def test_a_nonzero_exit_code_is_a_retryable_failure(run: str, code: int, message: str) -> None:
    error = failed(await perform(run), retryable=True)
    assert error.pop("message").startswith(message)
    assert error == {"type": "ExitCode", "exit_code": code}


async def test_the_shell_reports_a_missing_command() -> None:
    error = failed(await perform("no-such-command-here"), retryable=True)
    assert error["exit_code"] == 127
    assert "no-such-command-here" in error["message"]


async def test_the_output_file_of_a_failed_command_is_ignored() -> None:
    assert (
        "not JSON" not in failed(await perform('echo nonsense > "$WINDLASS_OUTPUT"; exit 1'), retryable=True)["message"]
    )


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV"])
async def test_the_error_names_the_signal_that_killed_the_command(name: str) -> None:
    error = failed(await perform(f"echo help >&2; kill -{name[3:]} $$"), retryable=True)
    assert error == {"type": "Killed", "message": f"killed by {name}: help", "signal": name}


@pytest.mark.parametrize(
    ("run", "fields", "told"),
    [
        ("", {}, "the command is empty"),
        ("echo \x00", {}, "the command is empty or contains characters"),
        ("echo \ud800", {}, "the command is empty or contains characters"),
        ("#" * 131_072, {}, "the command is 131072 bytes, the limit is 131071"),
        ("true", {"input": object()}, "input is not JSON"),
        ("true", {"input": float("nan")}, "input is not JSON"),
    ],
)
async def test_an_invalid_command_or_input_fails_permanently(run: str, fields: dict[str, Any], told: str) -> None:
    error = failed(await perform(run, **fields), retryable=False)
    assert error["type"] == "Invalid"
    assert error["message"].startswith(told)


async def test_a_long_command_is_run() -> None:
    assert succeeded(await perform("echo 1 " + "#" * 131_000)) == 1


async def test_a_command_may_look_like_an_option() -> None:
    assert "-x" in failed(await perform("-x"), retryable=True)["message"]


async def test_an_operating_system_error_is_a_retryable_failure() -> None:
    error = failed(await perform("true", workflow="a\x00b"), retryable=True)
    assert error["type"] == "ValueError"


async def test_the_output_of_twenty_concurrent_commands_is_kept_separate() -> None:
    run = 'echo "$WINDLASS_INDEX" > "$WINDLASS_OUTPUT"; pwd; echo "$WINDLASS_INDEX" >&2'
    captured = [CapturedLines() for _ in range(20)]
    outcomes = await asyncio.gather(*(perform(run, one, index=n, count=20) for n, one in enumerate(captured)))
    assert [succeeded(outcome) for outcome in outcomes] == list(range(20))
    assert len({line for one in captured for level, line in one.lines if level == "INFO"}) == 20
    assert [line for one in captured for level, line in one.lines if level == "WARNING"] == [str(n) for n in range(20)]
