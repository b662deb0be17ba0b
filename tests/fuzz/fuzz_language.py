"""Fuzzes expressions and templates: every input is parsed or refused with Invalid, and what was parsed is evaluated.

Not part of the suite. Install atheris, then run `python tests/fuzz/fuzz_language.py -max_total_time=60`.
"""

import sys
from typing import Any

import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]  # not among our dependencies

with atheris.instrument_imports(include=["windlass.core"]):
    from windlass.core.expressions.expression import evaluate, parse
    from windlass.core.expressions.scope import Facts, JsonText, TaskFacts
    from windlass.core.templates import template
    from windlass.core.templates.command import compile_command
    from windlass.core.templates.url import compile_url
    from windlass.errors import Invalid

COMPILERS = (template.compile, compile_url, template.compile_header, compile_command)


def one(data: bytes) -> None:
    provider = atheris.FuzzedDataProvider(data)
    body = JsonText(provider.ConsumeUnicode(40))
    text = provider.ConsumeUnicode(200)
    facts = Facts(trigger_body=body, tasks={"a": TaskFacts(status="success", body=body)}, item=text, index=0)
    judge(text, facts)
    for compiler in COMPILERS:
        fill(compiler, text, facts)


def judge(text: str, facts: Facts) -> None:
    try:
        expression = parse(text)
    except Invalid:
        return
    assert len(evaluate(expression, facts).text) < 5000


def fill(compiler: Any, text: str, facts: Facts) -> None:
    try:
        compiler(text).resolve(facts)
    except Invalid:
        return


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
