"""An e-mail as a job: a plain sync function around `smtplib`.

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
                server.quit()  # the mail is on its way, however they part
    except smtplib.SMTPException as error:
        if is_final(error):
            raise NonRetryable(f"the server will not take it: {error}") from error
        raise
    ctx.log.info("sent to %s", to)
    return {"message_id": message["Message-ID"], "to": to}


def compose(sender: str, to: str, subject: str, text: str) -> EmailMessage:
    message = EmailMessage()
    try:
        message["From"], message["To"], message["Subject"] = sender, to, subject
    except ValueError as error:  # a line break in a header is an attack or a mistake
        raise NonRetryable(f"this cannot be the head of a mail: {error}") from error
    message.set_content(text)
    return message


def connect(url: str) -> smtplib.SMTP:
    """Of smtp://, smtp+starttls:// or smtps://, with user and password or without."""
    place = urlsplit(url)
    host, tls = place.hostname or "localhost", ssl.create_default_context()
    if place.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, place.port or 465, timeout=30, context=tls)
    else:
        server = smtplib.SMTP(host, place.port or 25, timeout=30)
    try:
        if place.scheme == "smtp+starttls":
            server.starttls(context=tls)
        if place.username:
            server.login(unquote(place.username), unquote(place.password or ""))
    except BaseException:
        server.close()
        raise
    return server


def is_final(error: smtplib.SMTPException) -> bool:
    """500 and above: the same mail will be refused again. 400 and above: try later."""
    match error:
        case smtplib.SMTPRecipientsRefused():
            return all(code >= 500 for code, _ in error.recipients.values())
        case smtplib.SMTPSenderRefused() | smtplib.SMTPDataError():
            return error.smtp_code >= 500
        case _:
            return False
