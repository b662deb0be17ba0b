"""Routes with a required scope, which is checked before the handler is called."""

from collections.abc import Awaitable, Callable, Sequence

from starlette import routing
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as RequestScope

from windlass.core.orgs import Scope, require
from windlass.errors import Forbidden
from windlass.web.access import access_of


class Route(routing.Route):
    """A route of the Open Job Spec and the scope that its callers need."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        *,
        methods: Sequence[str],
        needs: Scope,
        operator: bool = False,
        labels: bool = False,
    ) -> None:
        super().__init__(path, endpoint, methods=list(methods))
        self.needs = needs
        self.operator = operator  # whether the caller must be the operator of the installation
        self.labels = labels  # whether its use cases enforce the label that a key is restricted to

    async def handle(self, scope: RequestScope, receive: Receive, send: Send) -> None:
        if self.methods is None or scope["method"] in self.methods:  # otherwise the response is 405
            access = access_of(scope)
            require(self.needs, access.scopes, access.actor)
            if access.label is not None and not self.labels:
                raise Forbidden(f"{access.actor} is restricted to the tenant {access.label}: it can use only its jobs")
            if self.operator and not access.is_operator:
                raise Forbidden(f"only the operator of the installation may do this: {access.actor} acts for one org")
        await super().handle(scope, receive, send)
