"""Times and time zones of the tests of cron expressions."""

from datetime import datetime

from hypothesis import settings

from windlass.core.cron.expression import Cron

unhurried = settings(deadline=None)
SATURDAY = "2028-01-01T00:00Z"
BERLIN, SAO_PAULO, BEIRUT = "Europe/Berlin", "America/Sao_Paulo", "Asia/Beirut"
LORD_HOWE, APIA, NEW_YORK = "Australia/Lord_Howe", "Pacific/Apia", "America/New_York"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def runs(cron: Cron, after: str, count: int) -> list[str]:
    return [when.isoformat(timespec="minutes").replace("+00:00", "Z") for when in cron.upcoming(at(after), count)]
