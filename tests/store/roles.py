"""The roles of the manual, created with the GRANT statements of the page."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "plain-sql.md"
WIDE = """
create role ROLE;
grant usage on schema workflow to ROLE;
grant select, insert, update on all tables in schema workflow to ROLE;
grant usage on sequence workflow.workflow_event_id_seq to ROLE;
"""  # the grants of the manual before it had roles


def grants(role: str) -> str:
    """Return the statements of the page that create a role, such as `shop_producer` or `billing_worker`."""
    blocks: list[str] = re.findall(r"```sql\n(create role .*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return next(block for block in blocks if f"create role {role}" in block)


@asynccontextmanager
async def acting(database: str, role: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """Yield a session of a new role with the grants of the page, or with the earlier ones if it is `wide`."""
    name = f"{role}_{uuid4().hex[:12]}"
    owner, client = await asyncpg.connect(database), await asyncpg.connect(database)
    statements = WIDE.replace("ROLE", name) if role == "wide" else grants(role).replace(role, name)
    await owner.execute(statements.replace(" login", ""))
    await client.execute(f"set session authorization {name}")
    try:
        yield client
    finally:
        await client.close()
        await owner.execute(f"drop owned by {name}; drop role {name}")
        await owner.close()
