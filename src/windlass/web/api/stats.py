"""/stats: everything an overview page needs, in one request."""

from fastapi import APIRouter

from windlass.engine import stats
from windlass.web.api.request.dependencies import Open
from windlass.web.api.schemas import stats as schemas
from windlass.web.api.schemas.common import Data
from windlass.web.api.schemas.stats import Stats

router = APIRouter(prefix="/stats", tags=["stats"])


@router.get("", summary="Get an overview")
async def get(db: Open) -> Data[Stats]:
    """Runs and jobs by state, the last day by the hour, what fails, what waits, who works, what comes next."""
    return Data[Stats](data=schemas.overview(await stats.overview(db)))
