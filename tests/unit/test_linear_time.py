"""Hostile strings for the regular expressions and parsers. Each took seconds to hours before it was made linear.

The tests measure processor time instead of elapsed time, and the bound is far above what is needed.
"""

import time
from collections.abc import Callable

import pytest

from windlass.core.cron import expression as cron_expression
from windlass.core.definition.parser import parse
from windlass.effects.handlers import like
from windlass.errors import Invalid
from windlass.web.ojs.cron import _zone

ENOUGH = 2.0  # seconds


def _refuse(call: Callable[[], object]) -> None:
    with pytest.raises(Invalid):
        call()


CASES: dict[str, Callable[[], object]] = {
    "a time zone of letters and a mark": lambda: _zone("A" * 64 + "!"),
    "addresses of open braces": lambda: _refuse(
        lambda: parse({"name": "w", "tasks": {f"t{n}": {"url": "https://" + "{{" * 4090} for n in range(118)}})
    ),
    "@every of digits without a unit": lambda: _refuse(lambda: cron_expression.parse("@every " + "1" * 1000)),
    "LIKE with many wildcards": lambda: like("%a" * 30 + "%b").fullmatch("a" * 255),
}


@pytest.mark.parametrize("name", CASES)
def test_hostile_strings_are_processed_in_linear_time(name: str) -> None:
    began = time.process_time()
    CASES[name]()
    assert time.process_time() - began < ENOUGH
