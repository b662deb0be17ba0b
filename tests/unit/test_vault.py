"""Master keys, data keys and sealed values."""

import base64
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.effects import private_file
from windlass.effects.vault import (
    MAKE_ONE,
    MasterKeys,
    Tampered,
    about,
    key_file,
    new_key,
    open_sealed,
    parse_master_keys,
    seal,
)
from windlass.errors import Invalid, MasterKeyRequired
from windlass.settings import read

KEY, OTHER = bytes(range(32)), bytes(32)


def text_of(*keys: bytes) -> str:
    return ",".join(base64.b64encode(key).decode() for key in keys)


@given(st.binary(), st.text(alphabet="abc-", min_size=1), st.integers(1))
def test_a_sealed_value_opens_only_with_its_key_and_its_context(value: bytes, name: str, version: int) -> None:
    sealed = seal(KEY, value, about("acme", name, version))
    assert open_sealed(KEY, sealed, about("acme", name, version)) == value
    for key, context in ((OTHER, about("acme", name, version)), (KEY, about("acme", name, version + 1))):
        with pytest.raises(Tampered):
            open_sealed(key, sealed, context)


@given(st.integers(0, 31))
def test_a_sealed_value_with_a_changed_byte_does_not_open(place: int) -> None:
    sealed = bytearray(seal(KEY, b"1234", b"x"))
    sealed[place] ^= 1
    with pytest.raises(Tampered, match="of x does not open"):
        open_sealed(KEY, bytes(sealed), b"x")


def test_a_truncated_value_does_not_open() -> None:
    with pytest.raises(Tampered):
        open_sealed(KEY, seal(KEY, b"1234", b"x")[:20], b"x")


def test_the_same_value_is_sealed_differently_each_time() -> None:
    assert seal(KEY, b"1234", b"x") != seal(KEY, b"1234", b"x")


def test_the_first_key_seals_and_all_are_found_by_id() -> None:
    keys = parse_master_keys(f" {text_of(KEY, OTHER)} ")
    assert keys.first.value == KEY
    assert [keys.get(key.id).value for key in keys] == [KEY, OTHER]
    assert keys.first.id == "630dcd29"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("not base64!", "not base64"),
        (text_of(b"short"), "has 5 bytes instead of 32"),
        (text_of(KEY, KEY), "two of the keys are the same"),
    ],
)
def test_an_invalid_master_key_setting_is_refused_without_revealing_it(text: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem) as refusal:
        read({"WINDLASS_MASTER_KEY": text})
    assert "WINDLASS_MASTER_KEY=...:" in str(refusal.value)
    assert text not in str(refusal.value)


def test_keys_are_not_in_the_representation_of_the_settings() -> None:
    assert text_of(KEY) not in repr(read({"WINDLASS_MASTER_KEY": text_of(KEY)}))
    assert repr(KEY)[2:20] not in repr(read({"WINDLASS_MASTER_KEY": text_of(KEY)}))


def test_a_missing_key_is_refused_with_the_command_that_makes_one() -> None:
    with pytest.raises(MasterKeyRequired, match="WINDLASS_MASTER_KEY is not set") as refusal:
        _ = MasterKeys().first
    assert MAKE_ONE in str(refusal.value)


def test_a_wrong_key_is_refused_with_the_id_of_the_right_one() -> None:
    with pytest.raises(MasterKeyRequired, match="master key 1234abcd is needed") as refusal:
        parse_master_keys(text_of(KEY)).get("1234abcd")
    assert refusal.value.key == "1234abcd"
    assert "has only 630dcd29" in str(refusal.value)


# The key of the embedded server


def test_the_embedded_server_creates_its_key_once(tmp_path: Path) -> None:
    made = key_file(tmp_path / "home", ())
    assert key_file(tmp_path / "home", ()) == made
    assert stat.S_IMODE((tmp_path / "home" / "master.key").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["master.key"]


def test_a_key_that_other_users_can_read_is_refused(tmp_path: Path) -> None:
    key_file(tmp_path, ())
    (tmp_path / "master.key").chmod(0o640)
    with pytest.raises(Invalid, match=r"other users can read .*master\.key"):
        key_file(tmp_path, ())


def test_no_new_key_is_created_for_a_database_that_needs_the_old_one(tmp_path: Path) -> None:
    with pytest.raises(MasterKeyRequired, match=r"is missing, .* master key 1234abcd: restore the file"):
        key_file(tmp_path, ["1234abcd"])
    assert not list(tmp_path.iterdir())


def test_a_damaged_key_file_is_refused(tmp_path: Path) -> None:
    private_file.make(tmp_path / "master.key", lambda: "rubbish", advice="")
    with pytest.raises(Invalid, match="not base64"):
        key_file(tmp_path, ())


def test_two_processes_that_create_a_file_at_once_get_the_same_content(tmp_path: Path) -> None:
    def other() -> str:
        private_file.make(tmp_path / "key", lambda: "first", advice="")
        return "second"

    assert private_file.make(tmp_path / "key", other, advice="") == "first"


def test_new_keys_differ() -> None:
    assert len({new_key() for _ in range(100)}) == 100
