"""Templates in commands: a value is an environment variable, and no value is ever read as shell syntax."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from windlass.core.expressions.scope import Facts
from windlass.core.templates.command import check_places, compile_command
from windlass.errors import Invalid, TemplateError

SHELLS = sorted({str(Path(path).resolve()) for path in ("/bin/sh", "/bin/bash", "/bin/dash") if Path(path).exists()})
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
HOSTILE = (
    "$(touch owned)",
    "`touch owned`",
    "'; touch owned; '",
    '"; touch owned; "',
    '"$(touch owned)"',
    "a\ntouch owned\n",
    "EOF\ntouch owned",
    "); touch owned; (",
    "}; touch owned; {",
    "a[$(touch owned)]",
    "x[0$(touch owned)]=1",
    "${owned:=$(touch owned)}",
    "\\",
    "'",
    '"',
    "*",
    "-n",
    "",
    " a  b ",
    "#",
    "!!",
    "~root",
    "ü\u2028\t",
)
# Scripts that print the value; each has its templates where an author would naturally write them.
PRINTING = (
    "printf %s {{input.v}}",
    'printf %s "{{input.v}}"',
    "printf %s \"$(printf %s {{input.v}}; echo .)\" | sed '$s/.$//'",
    'printf %s "$(printf %s "{{input.v}}"; echo .)" | sed \'$s/.$//\'',
    'X={{input.v}}; printf %s "$X"',
    "X='it''s'; # don't\nprintf %s \"{{input.v}}\"",
    "# don't {{input.v}}\nprintf %s {{input.v}}",
    'f() { printf %s "$1"; }; f {{input.v}}',
    "case {{input.v}} in *) printf %s {{input.v}};; esac",
    'for v in {{input.v}}; do printf %s "$v"; done',
    "if true; then printf %s {{input.v}}; fi",
    "(printf %s {{input.v}})",
    "env printf %s {{input.v}}",
    "grep '[[:space:]]' /dev/null || printf %s {{input.v}}",
    "trap 'true' EXIT; printf %s {{input.v}}",
)
# Scripts in which the value may be split or stay literal, but is never executed. Most of them are refused when they are
# published; stored versions may still have them.
OTHER = (
    "echo '{{input.v}}'",
    'echo "file: $(basename "{{input.v}}")"',
    'echo "${X:-"{{input.v}}"}"',
    "echo ${X:-{{input.v}}}",
    "echo `echo {{input.v}}`",
    'echo "`echo {{input.v}}`"',
    'echo "`echo "{{input.v}}"`"',
    "echo \\{{input.v}}",
    "cat <<EOF\n{{input.v}}\nEOF",
    "cat <<'EOF'\n{{input.v}}\nEOF",
    "cat <<-\tE\\OF\n\t{{input.v}}\n\tEOF",
    "cat <<A; cat <<B\n{{input.v}}\nA\n\"{{input.v}}\"\nB",
    "echo $(case x in x) echo {{input.v}};; esac)",
    "echo \"$(case x in x) echo {{input.v}};; esac) {{input.v}}\"",
    "echo \"it's {{input.v}}\" 'and \"' {{input.v}}",
    "echo a#b' {{input.v}} '\"{{input.v}}\"",
    "[ {{input.v}} = x ] || test -n \"{{input.v}}\"",
    "echo x > /dev/null {{input.v}} < /dev/null",
    "{{input.v}} || true",
    "echo $'{{input.v}}'",
)  # fmt: skip


def facts(**values: Any) -> Facts:
    return Facts(trigger_body=values)


def resolved(script: str, **values: Any) -> dict[str, Any]:
    return dict(compile_command(script).resolve(facts(**values)))


def run(shell: str, script: str, value: str, folder: Path) -> str:
    made = resolved(script, v=value)
    ended = subprocess.run(
        [shell, "-c", "--", made["run"]],
        env=ENVIRONMENT | made["values"],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )
    return ended.stdout.decode("utf-8", "replace")


def test_a_template_becomes_a_reference_to_an_environment_variable() -> None:
    made = resolved('./load.sh --name={{input.v}} {{input.n}} "{{input.v}}" | tee log', v="it's; rm -rf /", n=5)
    one, two = "${WINDLASS_VALUE_1?}", "${WINDLASS_VALUE_2?}"
    assert made["run"] == f'./load.sh --name="{one}" "{two}" "{one}" | tee log'
    assert made["values"] == {"WINDLASS_VALUE_1": "it's; rm -rf /", "WINDLASS_VALUE_2": "5"}
    assert resolved("echo '{a}'") == {"run": "echo '{a}'"}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", PRINTING)
def test_a_command_receives_the_value_unchanged(shell: str, script: str, tmp_path: Path) -> None:
    check_places(script)
    for value in HOSTILE:
        assert run(shell, script, value, tmp_path) == value, value
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", OTHER)
def test_a_value_is_never_executed_wherever_its_template_is(shell: str, script: str, tmp_path: Path) -> None:
    for value in HOSTILE:
        run(shell, script, value, tmp_path)
        assert not list(tmp_path.iterdir()), value


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.sampled_from([*"'\"`\\()}|&;#\n $<>", "$(", "${X:-", "<<E\n", "\nE\n", "echo ", "{{input.v}}"]), max_size=14
    ),
    value=st.sampled_from(HOSTILE),
)
@example(parts=['"', "$(", "echo ", '"', "{{input.v}}", '"', ")", '"'], value="$(touch owned)")
def test_a_value_is_never_executed_in_a_script_with_unbalanced_quotes(
    tmp_path: Path, parts: list[str], value: str
) -> None:
    run("/bin/sh", "echo " + "".join(parts) + "{{input.v}}", value, tmp_path)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo '{{input.v}}'", "it is inside single quotes, where the shell expands nothing: use double quotes"),
        ("cat <<'EOF'\n{{input.v}}\nEOF", "here-document with a quoted delimiter"),
        ("echo \\{{input.v}}", "follows a backslash"),
        ("echo $(( {{input.v}} ))", "in an arithmetic expression"),
        ("echo ${X:-{{input.v}}}", "inside ${ }"),
        ('echo "${X["{{input.v}}"]}"', "inside ${ }"),
        ('eval "ls {{input.v}}"', "eval would run its value as code"),
        ("sh -c 'ls' \"{{input.v}}\"", "sh -c would run its value as code"),
        ('/bin/bash -ec "ls {{input.v}}"', "sh -c would run its value as code"),
        ('sudo su app -c "ls {{input.v}}"', "sh -c would run its value as code"),
        ("python3 -c \"print('{{input.v}}')\"", "this interpreter would run its value as code"),
        ('trap "rm {{input.v}}" EXIT', "trap would run its value as code"),
        ("let x={{input.v}}", "let would run its value as code"),
        ("if [[ {{input.v}} -eq 1 ]]; then true; fi", "[[ ]] would run its value as code"),
        ("a[{{input.v}}]=1", "the subscript of an array would run its value as code"),
    ],
)
def test_a_template_that_the_shell_would_not_expand_or_would_evaluate_is_refused(script: str, message: str) -> None:
    with pytest.raises(Invalid, match=re.escape(message)):
        check_places(script)


@pytest.mark.parametrize(
    "script",
    ["wc -c {{input.v}}", "ls; trap x EXIT; echo {{input.v}}", "x=$(eval 1); echo {{input.v}}", "# eval {{input.v}}"],
)
def test_places_that_only_look_dangerous_are_allowed(script: str) -> None:
    check_places(script)


def test_a_command_fails_instead_of_running_with_unset_value_variables() -> None:
    script = resolved("echo started; rm -rf {{input.v}}/x", v="/tmp")["run"]
    ended = subprocess.run(["/bin/sh", "-c", script], env=ENVIRONMENT, capture_output=True, check=False)
    assert (ended.returncode != 0, ended.stdout) == (True, b"started\n")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"v": "a\x00b"}, "contains a NUL"),
        ({"v": "\ud800"}, "an unpaired surrogate"),
        (
            {"v": "ü" * 60_000},
            "its value is 120000 bytes, the limit is 102400: pass it as `input` and read $WINDLASS_INPUT_FILE",
        ),
    ],
)
def test_a_value_that_an_environment_variable_cannot_hold_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError, match=re.escape(message)):
        resolved("echo {{input.v}}", **values)


def test_the_total_size_of_the_values_of_a_command_is_limited() -> None:
    names = [f"v{n}" for n in range(11)]
    script = "echo " + " ".join(f"{{{{input.{name}}}}}" for name in names)
    with pytest.raises(TemplateError, match="all values of the command are 1126400 bytes, the limit is 1048576"):
        resolved(script, **dict.fromkeys(names, "x" * 102_400))


def test_a_long_command_with_many_templates_is_parsed_in_linear_time() -> None:
    """Each template inspects only the beginning of its own command."""
    script = "echo sh -c '' " + '"{{input.v}}" $( ' * 4000
    with pytest.raises(Invalid):
        check_places("sh -c x {{input.v}}" + script)
    check_places("echo " + '"{{input.v}}" ' * 4600)
    assert len(resolved(script, v="x")["run"]) > len(script)
