"""The entry point of the command line. Prints errors and sets the exit code."""

import sys

from windlass import __version__
from windlass.errors import Forbidden, Refused, ServerUnreachable, Unavailable, WindlassError

CHECK_DATABASE = "check WINDLASS_DATABASE_URL; windlass doctor looks for the cause"
CHECK_SERVER = "check --url or WINDLASS_URL, and that windlass up runs there"
CHECK_KEY = "set WINDLASS_API_KEY to one of the server's keys"
CHECK_SCOPE = "use another key in WINDLASS_API_KEY, or another --org"


def main() -> None:
    """Run the command line. Exit with 1 and one line on stderr after an expected error, with 2 after a usage error."""
    if sys.argv[1:] == ["--version"]:
        print(f"windlass {__version__}")  # noqa: T201 - before anything is imported
        return
    from windlass.cli.commands import cli

    try:
        _check_arguments(sys.argv)
        cli(_first(_first(sys.argv[1:], "--org"), "--url"), prog_name="windlass")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        message = describe(error)
        if message is None:
            raise
        _fail(message, _hint(error))


def describe(error: Exception) -> str | None:
    """Return the message of an expected error, None for a bug in Windlass.

    Expected errors are Windlass's own and those of the database with a SQLSTATE (wrong password, missing database).
    """
    if isinstance(error, Unavailable) and error.__cause__ is not None and str(error.__cause__):
        return f"{error} ({error.__cause__})"  # the driver's message names the address, which is no secret here
    if isinstance(error, WindlassError):
        return str(error).strip()
    return f"the database refused: {error}" if getattr(error, "sqlstate", None) else None


def _hint(error: Exception) -> str | None:
    """Return a hint on what to check after an error: the database, the server or the key."""
    if isinstance(error, ServerUnreachable):
        return CHECK_SERVER
    if isinstance(error, Refused):
        return CHECK_KEY
    if isinstance(error, Forbidden):
        return CHECK_SCOPE
    if isinstance(error, Unavailable) or getattr(error, "sqlstate", None):
        from windlass import settings

        return CHECK_DATABASE if settings.read().url is None else None
    return None


def _fail(message: str, hint: str | None = None) -> None:
    from windlass.cli.output import cell, note

    note(f"error: {cell(message)}")
    if hint is not None:
        note(f"hint: {hint}")
    sys.exit(1)


def _check_arguments(arguments: list[str]) -> None:
    for argument in arguments:
        if not argument.isascii() and any("\ud800" <= char <= "\udfff" for char in argument):
            _fail(f"the argument {argument!a} is not UTF-8 text")


def _first(arguments: list[str], option: str) -> list[str]:
    """Move --url or --org before the command: it is an option of windlass, but may be written anywhere."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for n, argument in enumerate(own):
        if argument == option and n + 1 < len(own):
            return [*arguments[n : n + 2], *arguments[:n], *arguments[n + 2 :]]
        if argument.startswith(f"{option}="):
            return [argument, *arguments[:n], *arguments[n + 1 :]]
    return arguments
