"""For conformance suites, and only where WINDLASS_TEST_MODE is on: start from nothing."""

import logging

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine.reset import reset as forget
from windlass.web.ojs import dependencies
from windlass.web.ojs.responses import answer

_log = logging.getLogger("windlass.test_mode")


async def reset(request: Request) -> Response:
    if not dependencies.app(request).settings.test_mode:
        raise HTTPException(404, "there is no such address: WINDLASS_TEST_MODE is not on")
    _log.warning("TEST MODE: everything that was done here is forgotten")
    await forget(await dependencies.db(request))
    (await dependencies.remote_jobs(request)).admission.forget()
    return answer(request, {"reset": True})


ROUTES = [Route("/admin/reset", reset, methods=["POST"])]
