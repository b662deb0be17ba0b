"""`import windlass` loads only what is used, and exports exactly the public names."""

import subprocess
import sys

import pytest

import windlass

DRIVERS = ("asyncpg", "aiohttp", "fastapi", "windlass.app", "windlass.store", "windlass.web")


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after a statement."""
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["windlass", "windlass.cron", "windlass.errors", "windlass.core.cron.expression"])
def test_a_module_that_needs_no_database_loads_no_driver(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert module in loaded
    assert loaded.isdisjoint(DRIVERS)


def test_importing_the_app_loads_the_driver() -> None:
    assert "asyncpg" in loaded_by("from windlass import Windlass; assert Windlass.__name__ == 'Windlass'")


def test_a_star_import_imports_every_public_name() -> None:
    program = "from windlass import *; import windlass; assert set(windlass.__all__) <= set(dir())"
    loaded_by(program)


@pytest.mark.parametrize("name", windlass.__all__)
def test_every_public_name_is_resolved_listed_and_cached(name: str) -> None:
    value = getattr(windlass, name)
    assert value.__name__ == name
    assert value.__module__.startswith("windlass.")
    assert name in dir(windlass)
    assert vars(windlass)[name] is value


def test_the_table_of_lazy_imports_lists_exactly_the_public_names() -> None:
    assert sorted(windlass._HOMES) == sorted(windlass.__all__)
    assert all(getattr(windlass, name).__module__ == f"windlass.{home}" for name, home in windlass._HOMES.items())


def test_an_unknown_name_raises_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match=r"module 'windlass' has no attribute 'Windlas'"):
        windlass.Windlas  # noqa: B018
