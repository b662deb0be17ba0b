"""The org and rights of a key are cached; a change invalidates the caches of all servers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from windlass.core.orgs import ApiKey, Role
from windlass.engine.database import Tenant
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys
from windlass.runtime import access
from windlass.runtime.access import Authority


def opened(db: Tenant) -> Callable[[], Awaitable[Tenant]]:
    async def open_() -> Tenant:
        return db

    return open_


@pytest.fixture(autouse=True)
def cached_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache entries for so long that only a notification can invalidate them during a test."""
    monkeypatch.setattr(access, "CACHED_SECONDS", 3600.0)


async def until_refused(authority: Authority, key: ApiKey) -> None:
    async with asyncio.timeout(30):
        while await authority.of_key(key) is not None:
            await asyncio.sleep(0.01)


async def test_a_key_acts_for_its_org_with_its_scopes_and_label(db: Tenant) -> None:
    await orgs.create(db, "acme")
    made = await keys.create(db.tenant("acme"), role="operator", name="ci", label="tenant-1")
    answer = await Authority(opened(db)).of_key(made.key)
    assert answer is not None
    access, is_disabled = answer
    assert (access.org, access.actor, access.scopes, access.label) == (
        "acme", "key:ci", Role.OPERATOR.scopes, "tenant-1",
    )  # fmt: skip
    assert not access.is_operator
    assert not is_disabled


async def test_a_cached_key_needs_no_query_even_if_the_secret_is_wrong(db: Tenant, conn: Any) -> None:
    made = await keys.create(db, role="viewer")
    authority = Authority(opened(db))
    assert await authority.of_key(made.key) is not None
    await conn.execute("delete from windlass.api_key")
    assert await authority.of_key(made.key) is not None
    assert await authority.of_key(ApiKey(made.key.id, "x" * 43)) is None


async def test_a_revoked_key_is_refused_by_another_server_before_its_cache_expires(
    db: Tenant, other_db: Tenant
) -> None:
    made = await keys.create(db, role="viewer")
    here, elsewhere = Authority(opened(db)), Authority(opened(other_db))
    assert await here.of_key(made.key) is not None
    assert await elsewhere.of_key(made.key) is not None
    await keys.revoke(db, made.key.id)
    assert await here.of_key(made.key) is None
    await until_refused(elsewhere, made.key)


async def test_created_and_disabled_orgs_take_effect_immediately(db: Tenant) -> None:
    authority = Authority(opened(db))
    assert await authority.is_alone()
    assert await authority.org("acme") is None
    await orgs.create(db, "acme")
    assert not await authority.is_alone()
    made = await keys.create(db.tenant("acme"), role="viewer")
    assert await authority.of_key(made.key) is not None
    await orgs.disable(db, "acme")
    answer = await authority.of_key(made.key)
    assert answer is not None
    assert answer[1]


async def test_cancelling_one_of_several_coalesced_lookups_does_not_affect_the_others(
    db: Tenant,
) -> None:
    made = await keys.create(db, role="viewer")
    authority = Authority(opened(db))
    first = asyncio.create_task(authority.of_key(made.key))
    others = [asyncio.create_task(authority.of_key(made.key)) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()
    assert all(await asyncio.gather(*others))


async def test_the_use_of_a_key_is_recorded(db: Tenant) -> None:
    made = await keys.create(db, role="viewer")
    await Authority(opened(db)).of_key(made.key)
    async with asyncio.timeout(30):
        while (await keys.list_(db)).items[0].last_used_at is None:
            await asyncio.sleep(0.01)
