"""Send an e-mail in a job: a sync handler that uses `smtplib`.

    export SMTP_URL=smtp+starttls://user:password@mail.example.org:587 MAIL_FROM=shop@example.org
    windlass worker examples.notify_by_mail:app
    windlass submit notify.mail.v1 '{"to": "ada@example.org", "subject": "Hello", "text": "It works."}'

A mail may arrive twice if a worker dies between sending and reporting; both have the same Message-ID.
"""

import os
import smtplib
import ssl
from contextlib import closing, suppress
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from windlass import Context, NonRetryable, Retry, Windlass

app = Windlass()  # embedded Postgres, or WINDLASS_DATABASE_URL


@app.job("notify.mail.v1", max_attempts=6, retry=Retry(base=5), timeout=60)
def send(ctx: Context, to: str, subject: str, text: str) -> dict[str, str]:
    message = compose(os.environ.get("MAIL_FROM", "windlass@localhost"), to, subject, text)
    message["Message-ID"] = f"<{ctx.id}@windlass.invalid>"
    try:
        with closing(connect(os.environ.get("SMTP_URL", "smtp://localhost:25"))) as server:
            server.send_message(message)
            with suppress(smtplib.SMTPException):
                server.quit()  # the mail is accepted already, so an error here does not matter
    except smtplib.SMTPException as error:
        if is_final(error):
            raise NonRetryable(f"the server rejected the mail: {error}") from error
        raise
    ctx.log.info("sent to %s", to)
    return {"message_id": message["Message-ID"], "to": to}


def compose(sender: str, to: str, subject: str, text: str) -> EmailMessage:
    message = EmailMessage()
    try:
        message["From"], message["To"], message["Subject"] = sender, to, subject
    except ValueError as error:  # for example a line break in a header
        raise NonRetryable(f"invalid header: {error}") from error
    message.set_content(text)
    return message


def connect(url: str) -> smtplib.SMTP:
    """Connect to an smtp://, smtp+starttls:// or smtps:// URL, with or without a user and password."""
    parts = urlsplit(url)
    host, tls = parts.hostname or "localhost", ssl.create_default_context()
    if parts.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, parts.port or 465, timeout=30, context=tls)
    else:
        server = smtplib.SMTP(host, parts.port or 25, timeout=30)
    try:
        if parts.scheme == "smtp+starttls":
            server.starttls(context=tls)
        if parts.username:
            server.login(unquote(parts.username), unquote(parts.password or ""))
    except BaseException:
        server.close()
        raise
    return server


def is_final(error: smtplib.SMTPException) -> bool:
    """Return whether a retry is pointless: codes from 500 are permanent, those below are temporary."""
    match error:
        case smtplib.SMTPRecipientsRefused():
            return all(code >= 500 for code, _ in error.recipients.values())
        case smtplib.SMTPSenderRefused() | smtplib.SMTPDataError():
            return error.smtp_code >= 500
        case _:
            return False
