"""Secrets in definitions are never shown; a client that sends back the masked definition keeps them."""

from typing import Any

import pytest

from windlass.core.definition.parser import parse
from windlass.core.definition.publish import difference, has_hidden, hidden, revealed, secrets
from windlass.core.json_value import HIDDEN
from windlass.errors import InvalidWorkflow


def waiting(secret: str | None, **more: Any) -> dict[str, Any]:
    hook = {"timeout": "1h"} | ({} if secret is None else {"secret": secret})
    return {"name": "pay", "tasks": [{"name": "paid", "wait_for_webhook": hook, **more}]}


def document(secret: str | None) -> dict[str, Any]:
    return parse(waiting(secret)).to_document()


def test_a_displayed_definition_has_no_secret() -> None:
    shown = hidden(document("opensesame"))
    assert "opensesame" not in str(shown)
    assert shown["tasks"][0]["wait_for_webhook"] == {"timeout": "1h", "secret": HIDDEN}
    assert hidden(document(None)) == document(None)


def test_a_masked_secret_in_a_definition_keeps_the_stored_secret() -> None:
    kept = document("opensesame")
    back = parse(hidden(kept))
    assert has_hidden(back)
    assert revealed(back, secrets(kept)) == parse(kept)
    with pytest.raises(InvalidWorkflow, match=r"tasks\.paid\.wait_for_webhook\.secret.*give the secret"):
        revealed(back, {})


def test_a_difference_reports_that_a_secret_changed_without_revealing_it() -> None:
    told = "\n".join(difference(document("opensesame"), document("swordfish")))
    assert "another" in told
    assert "opensesame" not in told
    assert "swordfish" not in told
    assert difference(document("opensesame"), document("opensesame")) == []
    assert any("secret" in line for line in difference(document(None), document("swordfish")))
