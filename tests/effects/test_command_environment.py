"""The environment and the folder of a command, and the variables that are hidden from it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.effects.command_harness import CapturedLines, lines_of, perform, request, succeeded
from windlass.effects.command.run import CommandOptions, Commands, inherited

OURS = {
    "WINDLASS_RUN_ID": "run-1",
    "WINDLASS_WORKFLOW": "nightly",
    "WINDLASS_STEP": "clean",
    "WINDLASS_ATTEMPT": "2",
    "WINDLASS_FENCE": "7",
    "WINDLASS_INDEX": "3",
    "WINDLASS_COUNT": "9",
    "WINDLASS_INPUT": '{"day":"2030-01-02","ü":[1,null]}',
}
GIVEN: dict[str, Any] = {"index": 3, "count": 9, "input": {"day": "2030-01-02", "ü": [1, None]}}


async def variables(**fields: Any) -> dict[str, str]:
    return dict(line.split("=", 1) for _, line in await lines_of("env", **fields))


async def test_a_command_receives_exactly_the_documented_variables() -> None:
    told = await variables(**GIVEN)
    assert told.keys() - {"PWD", "OLDPWD", "SHLVL", "_"} == OURS.keys() | {
        "PATH", "HOME", "LANG", "TZ", "WINDLASS_INPUT_FILE", "WINDLASS_OUTPUT",
    }  # fmt: skip
    assert {name: told[name] for name in OURS} == OURS
    assert (told["LANG"], told["TZ"]) == ("C.UTF-8", "UTC")


async def test_a_step_without_a_fan_out_has_index_0_and_count_1() -> None:
    told = await variables()
    assert (told["WINDLASS_INDEX"], told["WINDLASS_COUNT"], told["WINDLASS_INPUT"]) == ("0", "1", "{}")


async def test_secrets_in_the_environment_of_the_worker_are_hidden_from_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("WINDLASS_API_KEY", "WINDLASS_DATABASE_URL", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, "hush-hush")
    assert "hush-hush" not in " ".join((await variables()).values())


def test_only_path_home_lang_and_tz_are_inherited() -> None:
    told = {"PATH": "/opt/bin", "HOME": "/home/ada", "LANG": "de_DE.UTF-8", "TZ": "Europe/Berlin"}
    assert inherited({**told, "WINDLASS_API_KEY": "hush-hush", "LD_PRELOAD": "x.so"}) == told
    assert inherited({"PATH": ""}).keys() == {"PATH", "LANG", "TZ"}
    assert inherited({"PATH": ""})["PATH"].endswith(":/bin")


async def test_the_options_set_the_environment_and_the_location_of_the_folder(tmp_path: Path) -> None:
    options = CommandOptions(environment={"PATH": "/bin:/usr/bin", "HOME": "/home/ada"}, folder=tmp_path)
    captured = CapturedLines()
    outcome = await Commands(options).perform(request("echo $HOME; pwd -P; echo ${TZ-none}"), captured.keep)
    assert succeeded(outcome) is None
    home, folder, zone = (line for _, line in captured.lines)
    assert (home, zone, tmp_path.resolve() in Path(folder).parents) == ("/home/ada", "none", True)
    assert list(tmp_path.iterdir()) == []


async def test_the_folder_is_fresh_private_and_removed() -> None:
    run = "ls -A | wc -l; ls -ld .. | cut -c1-10; echo x > file; mkdir -p a/b; touch a/b/c; chmod 0 a; pwd -P"
    (_, count), (_, rights), (_, folder) = await lines_of(run)
    assert (count.strip(), rights) == ("0", "drwx------")
    assert not Path(folder).parent.exists()


async def test_the_folder_is_removed_after_a_failed_and_an_invalid_command(tmp_path: Path) -> None:
    commands = Commands(CommandOptions(folder=tmp_path))
    for wanted in (request("exit 1"), request("true", input=object())):
        await commands.perform(wanted, CapturedLines().keep)
        assert list(tmp_path.iterdir()) == []


async def test_without_a_home_the_folder_is_home() -> None:
    assert succeeded(await perform('[ "$HOME" = "$(pwd)" ] && echo true')) is True


@pytest.mark.parametrize("size", [0, 102_400 - 2, 102_400 - 1, 1_000_000])
async def test_the_input_is_in_a_file_and_in_a_variable_if_it_fits(size: int) -> None:
    run = 'cat "$WINDLASS_INPUT_FILE" > "$WINDLASS_OUTPUT"; printf %s "${WINDLASS_INPUT-none}" | wc -c'
    captured = CapturedLines()
    assert succeeded(await perform(run, captured, input="x" * size)) == "x" * size
    assert int(captured.lines[0][1]) == (size + 2 if size + 2 <= 102_400 else len("none"))


@pytest.mark.parametrize("value", [None, 0, "text 'quoted' $HOME", [1], {"a": "b\nc"}])
async def test_any_json_value_can_be_the_input(value: Any) -> None:
    assert succeeded(await perform('printf "%s" "$WINDLASS_INPUT"', input=value)) == json.loads(json.dumps(value))


async def test_stdin_is_empty_and_no_other_file_is_open() -> None:
    with Path(__file__).open():
        lines = await lines_of("cat; ls /proc/self/fd | wc -l" if Path("/proc/self/fd").exists() else "cat; echo 4")
    assert [line.strip() for _, line in lines] == ["4"]  # three, and the folder that ls looks into
