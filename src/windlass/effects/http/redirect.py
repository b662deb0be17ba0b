"""Builds the next request after a redirect. Secrets and bodies are not sent to another origin."""

from dataclasses import replace

from windlass.effects.http.request import Message
from windlass.effects.http.url import read
from windlass.errors import Invalid

FOLLOWED = frozenset({301, 302, 303, 307, 308})
# Any other header may contain a secret.
KEPT_ACROSS_ORIGINS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
ABOUT_THE_BODY = ("content-type", "content-encoding", "content-language", "content-location")


def redirected(message: Message, status: int, location: str) -> Message:
    """Return the next message. The new URL is checked like the first one."""
    url = read(location, base=message.url)
    followed = _turned(replace(message, url=url, headers=message.headers.copy()), status)
    if url.origin() != message.url.origin():
        if followed.body is not None:
            raise Invalid(
                f"{message.name} redirects with {status} to {url.origin()}, another origin: "
                "the body is not sent there; give the step that address if it is meant to have it",
                field="url",
            )
        for name in [name for name in followed.headers if name.lower() not in KEPT_ACROSS_ORIGINS]:
            followed.headers.popall(name, None)
    return followed


def _turned(message: Message, status: int) -> Message:
    """Change the method to GET as browsers do: after 303, and after 301 and 302 if it was POST."""
    if message.method == "HEAD" or not (status == 303 or (status in (301, 302) and message.method == "POST")):
        return message
    for name in ABOUT_THE_BODY:
        message.headers.popall(name, None)
    return replace(message, method="GET", body=None)
