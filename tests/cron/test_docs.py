"""The pages about the scheduler: every name in them exists, and every public name is documented."""

import re
from pathlib import Path

import pytest

import windlass.cron as api
from windlass.cron import Cron, FakeClock

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["reference/cron-scheduler.md", "tutorial/in-process-cron.md", "how-to/migrate-from-other-schedulers.md"]
REFERENCE = (DOCS / PAGES[0]).read_text("utf-8")


@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert re.search(rf"`[^`]*\b{name}\b[^`]*`", REFERENCE)


@pytest.mark.parametrize("name", [name for name in vars(Cron) if not name.startswith("_")])
def test_every_method_is_in_the_reference(name: str) -> None:
    assert re.search(rf"`[^`]*\b{name}\b[^`]*`", REFERENCE)


@pytest.mark.parametrize("page", PAGES)
def test_names_imported_in_the_docs_exist(page: str) -> None:
    for names in re.findall(r"^from windlass\.cron import (.+)$", (DOCS / page).read_text("utf-8"), re.MULTILINE):
        assert set(names.split(", ")) <= set(api.__all__)


@pytest.mark.parametrize("page", PAGES)
def test_methods_called_in_the_docs_exist(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    for thing, kind in [("cron", Cron), ("clock", FakeClock)]:
        assert {name for name in re.findall(rf"\b{thing}\.([a-z]\w*)\(", text) if not hasattr(kind, name)} == set()


async def test_the_test_in_the_tutorial_passes() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / PAGES[1]).read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(blocks[-1], names)
    test = names["test_a_month_of_reports"]
    assert callable(test)
    await test()
