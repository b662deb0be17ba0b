"""Database URLs are shown without passwords; root does not execute commands that the user of the embedded server could
have written."""

import os
from pathlib import Path

import pytest

from windlass import Windlass, WorkerOptions
from windlass.engine.maintenance import Place, check_commands, without_password
from windlass.errors import Invalid
from windlass.settings import Settings

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.mark.parametrize(
    ("url", "shown", "password"),
    [
        ("postgresql://ann@db/shop", "postgresql://ann@db/shop", None),
        ("postgresql:///shop?host=/run/pg", "postgresql:///shop?host=/run/pg", None),
        ("postgresql://ann:s%20ecret@db:5432/shop", "postgresql://ann@db:5432/shop", "s ecret"),
        ("postgresql://ann@db/shop?password=s%26ecret", "postgresql://ann@db/shop", "s&ecret"),
        ("postgresql://db/shop?a=b&password=secret&c=d", "postgresql://db/shop?a=b&c=d", "secret"),
        ("postgresql://db/shop?sslkey=k&sslpassword=secret", "postgresql://db/shop?sslkey=k", None),
        ("postgresql://db/shop?pass%77ord=secret", "postgresql://db/shop", "secret"),
        ("postgresql://ann:one@db/shop?password=secret", "postgresql://ann@db/shop", "one"),
    ],
)
def test_a_url_is_shown_without_the_passwords_of_its_user_info_and_query(
    url: str, shown: str, password: str | None
) -> None:
    assert without_password(url) == (shown, password)


@as_root
async def test_root_does_not_execute_commands_that_the_user_of_the_embedded_server_could_write(tmp_path: Path) -> None:
    app = Windlass(settings=Settings(home=tmp_path / "home"))
    with pytest.raises(Invalid, match="root must not execute commands from the embedded server") as caught:
        await app.worker(WorkerOptions(allow_commands=True))
    assert caught.value.field == "allow_commands"
    assert not (tmp_path / "home").exists()  # nothing was started for it


def test_commands_are_allowed_with_an_external_database(tmp_path: Path) -> None:
    check_commands(Place(url="postgresql://db/shop", home=tmp_path))
