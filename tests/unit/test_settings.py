"""The settings are read from the environment once, and all errors are reported at once."""

from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass.errors import Invalid
from windlass.settings import Rate, Settings, default_home, read


def test_an_empty_environment_gives_the_defaults() -> None:
    assert read({}) == Settings()
    assert read({}).database_url is None
    assert read({}).keep == timedelta(days=30)
    assert read({}).home == default_home()
    assert read({}).notify
    assert not read({}).pooler


def test_a_blank_variable_counts_as_unset() -> None:
    blank = {f"WINDLASS_{name}": "  " for name in ("DATABASE_URL", "NOTIFY", "POOL_SIZE", "API_KEY", "KEEP_DAYS")}
    assert read(blank) == Settings()


def test_other_environment_variables_are_ignored() -> None:
    assert read({"EDITOR": "/bin/ed", "POOL_SIZE": "many"}) == Settings()


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("DATABASE_URL", "postgresql://u@h/db", "database_url", "postgresql://u@h/db"),
        ("DATABASE_URL", " postgres://h/db ", "database_url", "postgres://h/db"),
        ("HOME", "/srv/windlass", "home", Path("/srv/windlass")),
        ("PG_BIN", "/usr/lib/postgresql/15/bin", "pg_bin", Path("/usr/lib/postgresql/15/bin")),
        ("OBJECTS_URL", "s3://bucket/folder", "objects_url", "s3://bucket/folder"),
        ("OBJECTS_URL", "file:///srv/objects", "objects_url", "file:///srv/objects"),
        ("NOTIFY", "off", "notify", False),
        ("NOTIFY", "TRUE", "notify", True),
        ("POOLER", "1", "pooler", True),
        ("POOLER", "no", "pooler", False),
        ("POOL_SIZE", "2", "pool_size", 2),
        ("POOL_SIZE", "1000", "pool_size", 1000),
        ("API_KEY", "0123456789abcdef", "api_keys", ("0123456789abcdef",)),
        ("API_KEY", "0123456789abcdef, fedcba9876543210,", "api_keys", ("0123456789abcdef", "fedcba9876543210")),
        ("RATE_LIMIT", "100/s", "rate_limit", Rate(100, 1.0)),
        ("RATE_LIMIT", " 6000/M ", "rate_limit", Rate(6000, 60.0)),
        ("RATE_LIMIT", "off", "rate_limit", Rate(0, 1.0)),
        ("CORS_ORIGINS", "https://a.example, http://B:8080", "cors_origins", ("https://a.example", "http://b:8080")),
        ("ARCHIVE_AFTER", "1h30m", "archive_after", timedelta(minutes=90)),
        ("ARCHIVE_AFTER", "never", "archive_after", None),
        ("KEEP_DAYS", "7", "keep", timedelta(days=7)),
        ("KEEP_DAYS", "0", "keep", None),
        ("LOG_FORMAT", "JSON", "log_format", "json"),
        ("LOG_LEVEL", "debug", "log_level", "DEBUG"),
    ],
)
def test_each_variable_is_parsed_to_its_value(variable: str, text: str, name: str, value: Any) -> None:
    assert getattr(read({f"WINDLASS_{variable}": text}), name) == value


INVALID_VALUES = {
    "WINDLASS_DATABASE_URL": "mysql://h/db",
    "WINDLASS_OBJECTS_URL": "ftp://host/folder",
    "WINDLASS_NOTIFY": "perhaps",
    "WINDLASS_POOLER": "2",
    "WINDLASS_POOL_SIZE": "many",
    "WINDLASS_API_KEY": "short",
    "WINDLASS_RATE_LIMIT": "many",
    "WINDLASS_CORS_ORIGINS": "*",
    "WINDLASS_ARCHIVE_AFTER": "soon",
    "WINDLASS_KEEP_DAYS": "-1",
    "WINDLASS_LOG_FORMAT": "xml",
    "WINDLASS_LOG_LEVEL": "loud",
}


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(Invalid) as refusal:
        read(INVALID_VALUES)
    for variable in INVALID_VALUES:
        assert variable in str(refusal.value)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        *INVALID_VALUES.items(),
        ("WINDLASS_POOL_SIZE", "1"),
        ("WINDLASS_POOL_SIZE", "²"),
        ("WINDLASS_OBJECTS_URL", "file://objects"),
        ("WINDLASS_OBJECTS_URL", "file:///"),
        ("WINDLASS_OBJECTS_URL", "s3://"),
    ],
)
def test_the_error_of_an_invalid_value_names_the_variable(variable: str, text: str) -> None:
    with pytest.raises(Invalid, match=variable):
        read({variable: text})


def test_a_key_that_is_too_short_is_not_repeated_in_the_message() -> None:
    with pytest.raises(Invalid) as refusal:
        read({"WINDLASS_API_KEY": "secret"})
    assert "secret" not in str(refusal.value)


def test_a_home_may_be_written_with_a_tilde() -> None:
    assert read({"WINDLASS_HOME": "~/windlass"}).home == Path.home() / "windlass"


def test_every_setting_can_be_set_in_the_environment() -> None:
    told = {
        "WINDLASS_DATABASE_URL": "postgresql://h/db",
        "WINDLASS_HOME": "/srv",
        "WINDLASS_PG_BIN": "/bin",
        "WINDLASS_NOTIFY": "off",
        "WINDLASS_POOLER": "on",
        "WINDLASS_POOL_SIZE": "3",
        "WINDLASS_API_KEY": "0123456789abcdef",
        "WINDLASS_KEEP_DAYS": "1",
        "WINDLASS_LOG_FORMAT": "json",
        "WINDLASS_LOG_LEVEL": "ERROR",
    }
    changed = {f.name for f in fields(Settings) if getattr(read(told), f.name) != getattr(Settings(), f.name)}
    assert changed >= {
        "database_url",
        "home",
        "pg_bin",
        "notify",
        "pooler",
        "pool_size",
        "api_keys",
        "keep",
        "log_level",
    }
