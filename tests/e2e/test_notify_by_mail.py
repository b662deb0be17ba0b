"""The example that sends mails, against a real SMTP server."""

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from examples.notify_by_mail import app

from tests.e2e.smtp import mail_server
from windlass import Context
from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.effects.handlers import Threads, perform

ID = UUID("01980000-0000-7000-8000-000000000001")
MAIL = {"to": "ada@example.org", "subject": "Grüße", "text": "It works.\n.\nReally.\n"}


async def notify(monkeypatch: pytest.MonkeyPatch, url: str, payload: dict[str, str]) -> Outcome:
    monkeypatch.setenv("SMTP_URL", url)
    monkeypatch.setenv("MAIL_FROM", "shop@example.org")
    handler = app.handlers.find("notify.mail.v1")
    assert handler is not None
    context = Context(ID, handler.type, 1, 6, "default", 100, 1, datetime.now(UTC), {}, lambda _: None)
    threads = Threads(1)
    try:
        return await perform(handler, context, payload, threads)
    finally:
        threads.close()


async def test_a_mail_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with mail_server() as server:
        outcome = await notify(monkeypatch, server.url, MAIL)
    assert isinstance(outcome, Succeeded), outcome
    assert json.loads(outcome.result) == {"message_id": f"<{ID}@windlass.invalid>", "to": "ada@example.org"}
    (mail,) = server.mails
    assert (mail["From"], mail["To"], mail["Subject"]) == ("shop@example.org", "ada@example.org", "Grüße")
    assert mail["Message-ID"] == f"<{ID}@windlass.invalid>"
    assert mail.get_content().replace("\r\n", "\n") == MAIL["text"]
    assert server.words[-1].upper() == "QUIT"


@pytest.mark.parametrize("word", ["MAIL", "RCPT", "DATA", "."])
@pytest.mark.parametrize(("answer", "retryable"), [("451 later", True), ("550 never", False)])
async def test_the_smtp_reply_code_decides_whether_a_failure_is_retryable(
    monkeypatch: pytest.MonkeyPatch, word: str, answer: str, retryable: bool
) -> None:
    async with mail_server({word: answer}) as server:
        outcome = await notify(monkeypatch, server.url, MAIL)
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, server.mails) == (retryable, [])
    assert answer[4:] in outcome.error["message"]


async def test_a_server_that_is_not_ready_is_a_retryable_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async with mail_server({"": "554 no"}) as server:
        outcome = await notify(monkeypatch, server.url, MAIL)
    assert isinstance(outcome, Failed)
    assert outcome.retryable


async def test_an_unreachable_server_is_a_retryable_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async with mail_server() as server:
        pass
    outcome = await notify(monkeypatch, server.url, MAIL)
    assert isinstance(outcome, Failed)
    assert outcome.retryable


async def test_an_error_on_quit_does_not_send_the_mail_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    async with mail_server({"QUIT": "421 busy"}) as server:
        assert isinstance(await notify(monkeypatch, server.url, MAIL), Succeeded)
    assert len(server.mails) == 1


async def test_headers_cannot_be_injected(monkeypatch: pytest.MonkeyPatch) -> None:
    async with mail_server() as server:
        outcome = await notify(monkeypatch, server.url, MAIL | {"subject": "Hello\nBcc: eve@example.org"})
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert server.words == []
