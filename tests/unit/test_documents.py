"""Workflow files: YAML without its pitfalls, JSON, and errors with line and column."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from windlass.effects import documents as document_reader
from windlass.effects.documents import MAX_FILE, Unreadable, load_yaml, read
from windlass.errors import Invalid

LOADERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if hasattr(yaml, "CSafeLoader") else [])]


@pytest.fixture(params=LOADERS, ids=lambda loader: loader.__name__, autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_reader, "LOADER", request.param)


def one(text: str) -> Any:
    [document] = load_yaml(text)
    return document


@pytest.mark.parametrize("word", ["on", "On", "yes", "no", "off", "y", "n", "NO", "2030-01-31", "2030-01-31 12:00:00"])
def test_words_with_a_special_meaning_in_yaml_1_1_stay_strings(word: str) -> None:
    assert one(f"{word}: [{word}]") == {word: [word]}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("0x1F", 31),
        ("0o17", 15),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1.2.3", "1.2.3"),
        ("'12'", "12"),
        ('"on"', "on"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int 12", 12),
        ("30s", "30s"),
        ("=", "="),
        ("{{trigger.body}}x", None),
    ],
)
def test_plain_values_have_the_types_of_yaml_1_2(written: str, value: Any) -> None:
    if "{{" in written:
        with pytest.raises(Unreadable):
            one(f"a: {written}")
    else:
        assert one(f"a: {written}") == {"a": value}


def test_keys_are_strings_as_written() -> None:
    assert one("{1: a, true: b, null: c, 0x10: d, 1.50: e}") == {
        "1": "a",
        "true": "b",
        "null": "c",
        "0x10": "d",
        "1.50": "e",
    }


def test_a_file_may_have_several_documents_and_empty_ones_are_ignored() -> None:
    assert load_yaml("---\na: 1\n---\n---\nb: 2\n...\n---\n# nothing\n") == [{"a": 1}, {"b": 2}]
    assert load_yaml("# nothing\n") == []


def test_anchors_and_merge_keys_are_expanded() -> None:
    text = """
usual: &usual {retries: 3, timeout: 5s}
tasks:
  a: {<<: *usual, job: a.b.v1}
  b: {timeout: 9s, <<: [*usual, {retries: 1, queue: q}]}
  c: {"<<": kept}
"""
    assert one(text)["tasks"] == {
        "a": {"retries": 3, "timeout": "5s", "job": "a.b.v1"},
        "b": {"retries": 3, "timeout": "9s", "queue": "q"},
        "c": {"<<": "kept"},
    }


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERRY = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12)
)
LONG = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100)}]\n"


@pytest.mark.parametrize("text", [LAUGHS, MERRY, LONG], ids=["lists", "merges", "long text"])
def test_the_expansion_of_aliases_is_limited(text: str) -> None:
    with pytest.raises(Unreadable, match="the document is too large with its aliases expanded"):
        load_yaml(text)


def test_documents_of_one_file_share_the_expansion_limit() -> None:
    text = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 30)}]\n"
    load_yaml(text)
    with pytest.raises(Unreadable, match="too large"):
        load_yaml(f"{text}---\n{text}")


REFUSED: list[tuple[str, str, tuple[int, int]]] = [
    ("a: 1\nb: 2\n a: 3", "not YAML", (3, 3)),
    ("a: 1\nb:\n  c: 1\n  c: 2\n", "the key 'c' is a duplicate, first in line 3", (4, 3)),
    ("a: 1\n'a': 2\n", "the key 'a' is a duplicate, first in line 1", (2, 1)),
    ("a: [1, 2\nb: 3", "not YAML", (2, 2)),
    ("a: *b", r"\*b is undefined", (1, 4)),
    ("a: &a [*a]", r"\*a is undefined", (1, 8)),
    ("a: &a 1\n---\nb: *a", r"\*a is undefined", (3, 4)),
    ("[a, b]: c", "a key must be a string, not a list or an object", (1, 1)),
    ("a: &a x\n*a : c", "a key must be a string, not an alias", (2, 1)),
    ("a: !!python/object/apply:os.system ['true']", "the tag tag:yaml.org,2002:python/object", (1, 4)),
    ("a: !secret x", "the tag !secret is not supported", (1, 4)),
    ("a: !!binary eA==", "the tag tag:yaml.org,2002:binary is not supported", (1, 4)),
    ("a: !!set {b, c}", "the tag tag:yaml.org,2002:set is not supported", (1, 4)),
    ("a: .inf", r"\.inf is not a JSON number", (1, 4)),
    ("a: .NaN", r"\.NaN is not a JSON number", (1, 4)),
    ("a: -1e400", "-1e400 is out of range", (1, 4)),
    (f"a: {'9' * 5000}", "the number has 5000 digits", (1, 4)),
    ("a: {<<: 7}", "<< must be an object or a list of objects", (1, 9)),
    ("[" * 70 + "]" * 70, "nested deeper than 64 levels", (1, 65)),
    ("a: b\nc:\n\td: e", "not YAML", (3, 1)),
    ("a: b: c", "not YAML", (1, 5)),
]


@pytest.mark.parametrize(("text", "told", "place"), REFUSED, ids=[text[:30] for text, _, _ in REFUSED])
def test_the_error_of_an_unreadable_document_has_its_line_and_column(
    text: str, told: str, place: tuple[int, int]
) -> None:
    with pytest.raises(Unreadable, match=told) as refusal:
        load_yaml(text)
    assert (refusal.value.line, refusal.value.column) == place


def test_a_hundred_thousand_nested_brackets_are_refused() -> None:
    for bracket in "[{":
        with pytest.raises(Unreadable, match=r"deeper than 64|a key must be a string"):
            load_yaml(bracket * 100_000)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_a_json_file_is_read_unchanged(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(json.dumps([value]), "utf-8")
    assert read(path) == [[value]]


@given(st.text(max_size=60) | st.text(st.sampled_from("ab:-[]{}&*!#|>'\" \n\t<~%@,?0."), max_size=60))
def test_any_string_is_parsed_or_refused(text: str) -> None:
    try:
        documents = load_yaml(text)
    except Unreadable:
        return
    json.dumps(documents)


def told(path: Path) -> str:
    with pytest.raises(Invalid) as refusal:
        read(path)
    return str(refusal.value)


def test_errors_name_the_file(tmp_path: Path) -> None:
    cases: dict[str, tuple[bytes, str]] = {
        "a.yaml": (b"a: 1\na: 2\n", "a.yaml:2:1: the key 'a' is a duplicate, first in line 1"),
        "a.json": (b'{"a": 1,\n "a": 2}', "a.json:2:2: the key 'a' is a duplicate, first in line 1"),
        "b.json": (b'{"a": 1,\n 5}', "b.json:2:2: it is not JSON: "),
        "c.json": (b"[NaN]", "c.json: it is not JSON: NaN is not a JSON number"),
        "d.json": (b"[" * 100_000, "d.json: it is nested deeper than 64 levels"),
        "e.json": (b"[" + b"9" * 5000 + b"]", "e.json: it is not JSON: Exceeds the limit"),
        "f.json": (b"", "f.json:1:1: it is not JSON: "),
        "b.yaml": (b"# empty\n", "b.yaml: the file is empty"),
        "c.yaml": (b"a: 1\nb: \xff\xfe\n", "c.yaml:2: it is not UTF-8 text"),
        "d.yaml": (b"a: \x00", "d.yaml: it is not YAML: "),
        "e.yaml": (b"#" * (MAX_FILE + 1), "e.yaml is larger than 5000000 bytes"),
    }
    for name, (content, expected) in cases.items():
        (tmp_path / name).write_bytes(content)
        assert told(tmp_path / name).startswith(f"{tmp_path}/{expected}"), name
    assert told(tmp_path) == f"{tmp_path} is a folder: give the files in it, for example {tmp_path}/*.yaml"
    assert told(tmp_path / "none.yaml") == f"cannot read {tmp_path}/none.yaml: No such file or directory"
    assert told(Path("a\x00b")).startswith("cannot read a")


def test_a_byte_order_mark_and_windows_line_endings_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: on\r\n")
    assert read(str(tmp_path / "a.yml")) == [{"a": 1, "b": "on"}]
