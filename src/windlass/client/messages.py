"""Operations on /events and /runs/{run_id}/signals: publish events, and send signals to runs."""

from typing import Any

from windlass.client.descriptors import Group, W, operation
from windlass.client.request import Call, one, present
from windlass.schemas.messages import Sent


class Messages(Group[W]):
    @operation
    def publish(
        self,
        name: str,
        payload: Any = None,
        *,
        key: str = "",
        id: str | None = None,  # noqa: A002
    ) -> Call[Sent]:
        """Publish an event to all tasks and handlers that wait for its name and key, and to the workflows it triggers.

        With an `id` the event is published once, even if the call is repeated.
        """
        return one(Sent, "POST", "/events", body=present({"name": name, "key": key, "payload": payload, "id": id}))

    @operation
    def signal(
        self,
        run_id: str,
        name: str,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002
    ) -> Call[Sent]:
        """Send a signal to a run, or to a job that is not a task of a run."""
        place = {"run_id": run_id, "signal": name}
        return one(Sent, "POST", "/runs/{run_id}/signals/{signal}", place, body=present({"payload": payload, "id": id}))
