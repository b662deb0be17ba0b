"""`import windlass` loads only what is used, and exports exactly the public names."""

import subprocess
import sys

import pytest

import windlass

DRIVERS = ("asyncpg", "aiohttp", "fastapi", "windlass.app", "windlass.store", "windlass.web")


def loaded_by(statement: str) -> set[str]:
    """The modules of a fresh interpreter after this."""
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["windlass", "windlass.cron", "windlass.errors", "windlass.core.cron.expression"])
def test_what_needs_no_database_loads_no_driver(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert module in loaded
    assert loaded.isdisjoint(DRIVERS)


def test_the_app_is_there_when_it_is_asked_for() -> None:
    assert "asyncpg" in loaded_by("from windlass import Windlass; assert Windlass.__name__ == 'Windlass'")


def test_a_star_import_gives_every_public_name() -> None:
    program = "from windlass import *; import windlass; assert set(windlass.__all__) <= set(dir())"
    loaded_by(program)


@pytest.mark.parametrize("name", windlass.__all__)
def test_every_public_name_is_found_listed_and_kept(name: str) -> None:
    value = getattr(windlass, name)
    assert value.__name__ == name
    assert value.__module__.startswith("windlass.")
    assert name in dir(windlass)
    assert vars(windlass)[name] is value


def test_the_table_of_homes_is_the_list_of_public_names() -> None:
    assert sorted(windlass._HOMES) == sorted(windlass.__all__)
    assert all(getattr(windlass, name).__module__ == f"windlass.{home}" for name, home in windlass._HOMES.items())


def test_what_does_not_exist_is_missed_by_name() -> None:
    with pytest.raises(AttributeError, match=r"module 'windlass' has no attribute 'Windlas'"):
        windlass.Windlas  # noqa: B018
