"""An SMTP server that accepts mails, or refuses commands as a test configures it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage

USUAL = {
    "EHLO": "250 here",
    "MAIL": "250 ok",
    "RCPT": "250 ok",
    "DATA": "354 go on",
    ".": "250 taken",
    "QUIT": "221 bye",
}


@dataclass
class MailServer:
    refusals: Mapping[str, str]  # replies that replace those of USUAL, by command
    url: str = ""
    words: list[str] = field(default_factory=list)
    mails: list[EmailMessage] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{self.refusals.get('', '220 ready')}\r\n".encode())
        while line := (await reader.readline()).decode().strip():
            word = line.partition(" ")[0].upper()
            self.words.append(line)
            answer = self._answer(word)
            writer.write(f"{answer}\r\n".encode())
            if word == "DATA" and answer.startswith("354"):
                await self._take(reader, writer)
            if word == "QUIT":
                break
        writer.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = (await reader.readuntil(b"\r\n.\r\n")).removesuffix(b".\r\n").replace(b"\r\n..", b"\r\n.")
        answer = self._answer(".")
        if answer.startswith("250"):
            mail = message_from_bytes(data, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            self.mails.append(mail)
        writer.write(f"{answer}\r\n".encode())

    def _answer(self, word: str) -> str:
        return self.refusals.get(word) or USUAL.get(word, "500 what?")


@asynccontextmanager
async def mail_server(refusals: Mapping[str, str] | None = None) -> AsyncIterator[MailServer]:
    server = MailServer(refusals or {})
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"smtp://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener:
        yield server
