"""Turns the access that the guard granted to a request into the `Tenant` that the engine takes.

Only the two modules of dependencies, `api/shared.py` and `ojs/dependencies.py`, call `tenant`.
"""

from starlette.requests import Request
from starlette.types import Scope

from windlass.app import Windlass
from windlass.core.orgs import Access
from windlass.engine.database import Tenant

MOST_TENANTS = 1000


def access_of(scope: Scope) -> Access:
    """Return the access of the caller; raise `KeyError` for a request that did not pass the guard."""
    access: Access = scope["state"]["access"]
    return access


async def tenant(request: Request, access: Access) -> Tenant:
    """Return the database with the access of this caller. Equal accesses get the same object, so that concurrent
    requests of a caller can be batched into one transaction."""
    app: Windlass = request.app.state.windlass
    opened = await app.open()
    tenants: dict[Access, Tenant] = request.app.state.tenants
    known = tenants.get(access)
    if known is None or known.pool is not opened.pool:
        if len(tenants) >= MOST_TENANTS:
            tenants.clear()
        known = tenants[access] = opened.database.tenant(
            access.org, actor=access.actor, scopes=access.scopes, label=access.label, isolated=access.isolated
        )
    return known
