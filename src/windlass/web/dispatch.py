"""Which face a request is for, by the beginning of its path. Workers of the Open Job Spec come thousands of times a
second: they do not walk past the routes of everybody else."""

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send


class Dispatch:
    def __init__(self, main: ASGIApp, others: Mapping[str, ASGIApp]) -> None:
        self._main, self._others = main, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        face = next((face for prefix, face in self._others.items() if path.startswith(prefix)), self._main)
        await face(scope, receive, send)
