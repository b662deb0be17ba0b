"""Calls the API of a cluster for one namespace: create, get, delete, list in pages, watch.

A call that the API refuses raises `Refusal`; one that gets no answer, or 401, 429 or 5xx, raises `Unavailable`.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any, NamedTuple

import aiohttp
import yaml

from windlass.effects.launchers.kubernetes.options import KubernetesOptions
from windlass.errors import Invalid, Unavailable

TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
WATCH_SECONDS = 300
PAGE = 500
REREAD_AFTER = 2.0  # seconds: credentials may come from a program that takes a while
LISTS = 3  # attempts to read a list whose pages expire
GROUPS: Mapping[str, str] = {"jobs": "/apis/batch/v1"}  # others are in the core group


class Refusal(Exception):
    """An error response of the API: its status, its reason (an identifier) and its message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Listing(NamedTuple):
    items: list[dict[str, Any]]
    version: str  # a watch can continue from here
    now: datetime  # of the API server


class Event(NamedTuple):
    kind: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    version: str


@dataclass(slots=True, eq=False)
class Connection:
    """A client with credentials. If they are refused, the client is closed as soon as no request uses it."""

    client: Any
    made_at: float
    requests: int = 0
    is_retired: bool = False

    async def close_if_unused(self) -> None:
        if self.is_retired and not self.requests:
            await self.client.close()


class Api:
    def __init__(self, pool: str, options: KubernetesOptions) -> None:
        self._pool = pool
        self._options = options
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()

    async def create(self, resource: str, body: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        query = {"dryRun": "All"} if dry_run else {}
        return await self._json("POST", self._path(resource), query, body)

    async def get(self, resource: str, name: str) -> dict[str, Any]:
        return await self._json("GET", self._path(resource, name))

    async def delete(self, resource: str, name: str, *, propagation: str, dry_run: bool = False) -> None:
        query = {"propagationPolicy": propagation} | ({"dryRun": "All"} if dry_run else {})
        await self._json("DELETE", self._path(resource, name), query)

    async def log(self, pod: str, query: Mapping[str, str]) -> bytes:
        response = await self._call("GET", self._path("pods", pod) + "/log", query)
        return await _read(response)

    async def list(
        self, resource: str, selector: str, *, by: str = "labelSelector", page: int = PAGE, first: int | None = None
    ) -> Listing:
        """Return the objects that match a selector of labels or fields: all of them, or only the first ones."""
        for _ in range(LISTS):
            try:
                return await self._list(
                    resource, {by: selector, "limit": str(first or page)}, only_one=first is not None
                )
            except Refusal as refusal:
                if refusal.status != 410:
                    raise
        raise Unavailable(f"pool {self._pool}: the pages of the list of {resource} expired before they were read")

    async def watch(self, resource: str, selector: str, version: str) -> AsyncGenerator[Event, None]:
        """Yield the changes after `version` of the objects with these labels, until the API ends the response."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": selector,
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(sock_connect=5, sock_read=WATCH_SECONDS + 30)
        response = await self._call("GET", self._path(resource), query, timeout=timeout)
        try:
            while line := await response.content.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise Refusal(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
                yield Event(event["type"], event["object"]["metadata"]["resourceVersion"])
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise Unavailable(f"pool {self._pool}: the watch of {resource} ended: {_words(error)}") from error
        finally:
            response.close()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.client.close()

    def _path(self, resource: str, name: str | None = None) -> str:
        path = f"{GROUPS.get(resource, '/api/v1')}/namespaces/{self._options.namespace}/{resource}"
        return path if name is None else f"{path}/{name}"

    async def _list(self, resource: str, query: dict[str, str], *, only_one: bool) -> Listing:
        items: list[dict[str, Any]] = []
        while True:
            response = await self._call("GET", self._path(resource), query)
            now = parsedate_to_datetime(response.headers["Date"]) if "Date" in response.headers else datetime.now(UTC)
            document = await _read_json(response)
            for item in document["items"]:
                item["metadata"].pop("managedFields", None)  # often the largest part of an object
                items.append(item)
            metadata = document["metadata"]
            if not metadata.get("continue") or only_one:
                return Listing(items, metadata["resourceVersion"], now)
            query["continue"] = metadata["continue"]

    async def _json(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return await _read_json(await self._call(method, path, query or {}, body))

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        *,
        timeout: aiohttp.ClientTimeout = TIMEOUT,
    ) -> aiohttp.ClientResponse:
        """Send a request and return the response; raise `Refusal` or `Unavailable` for an error status."""
        connection = await self._connected()
        response = await self._send(connection, method, path, query, body, timeout)
        if response.status == 401:  # the token has expired: read the credentials again
            response.close()
            await self._reconnect(connection)
            response = await self._send(await self._connected(), method, path, query, body, timeout)
        if response.status < 400:
            return response
        refusal = _refusal(response, await _read(response))
        if refusal.status in (401, 408, 429) or refusal.status >= 500:
            raise Unavailable(f"pool {self._pool}: the cluster answers {refusal.status}: {refusal.message}")
        raise refusal

    async def _send(
        self,
        connection: Connection,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        connection.requests += 1
        try:
            response: aiohttp.ClientResponse = await connection.client.call_api(
                path,
                method,
                query_params=list(query.items()),
                header_params={"Accept": "application/json, */*"},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=timeout,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            host = connection.client.configuration.host
            raise Unavailable(f"pool {self._pool}: the cluster {host} does not answer: {_words(error)}") from error
        finally:
            connection.requests -= 1
            await connection.close_if_unused()
        return response

    # The connection

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is None:
                self._connection = Connection(await self._connect(), time.monotonic())
            return self._connection

    async def _reconnect(self, refused: Connection) -> None:
        """Read the credentials again, unless another call has done so, or they were read just now."""
        async with self._connecting:
            if self._connection is not refused or time.monotonic() - refused.made_at < REREAD_AFTER:
                return
            try:
                self._connection = Connection(await self._connect(), time.monotonic())
            except Invalid as error:
                raise Unavailable(str(error)) from error
            refused.is_retired = True
            await refused.close_if_unused()

    async def _connect(self) -> Any:
        """Return a client with the credentials of the options."""
        # The library has a module for each kind of object: importing them takes a second.
        config = await asyncio.to_thread(import_module, "kubernetes_asyncio.config")
        library = await asyncio.to_thread(import_module, "kubernetes_asyncio.client")
        configuration = library.Configuration()
        path, context = self._options.kubeconfig, self._options.context
        try:
            if path is None and context is None:
                try:
                    config.load_incluster_config(client_configuration=configuration)
                    return library.ApiClient(configuration)
                except config.ConfigException:
                    pass  # not in a pod
            await config.load_kube_config(
                config_file=path, context=context, client_configuration=configuration, persist_config=False
            )
        except (config.ConfigException, OSError, yaml.YAMLError) as error:
            field = "context" if context is not None and "context" in str(error) else "kubeconfig"
            source = path or "the default of kubectl"
            raise Invalid(
                f"pool {self._pool}: no credentials for a cluster in kubeconfig {source}"
                f"{'' if context is None else f', context {context}'}: {_words(error)}; set `kubeconfig` to a file that"
                " `kubectl --kubeconfig` accepts, or run the worker in the cluster",
                field=field,
            ) from error
        return library.ApiClient(configuration)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.read()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Unavailable(f"the cluster {response.url.host} ended its response early: {_words(error)}") from error


async def _read_json(response: aiohttp.ClientResponse) -> dict[str, Any]:
    try:
        document = json.loads(await _read(response))
    except ValueError:
        document = None
    if not isinstance(document, dict):  # from a proxy, or a login page
        raise Unavailable(f"{response.url.host} answers {response.content_type}: it is not the API of a cluster")
    return document


def _refusal(response: aiohttp.ClientResponse, body: bytes) -> Refusal:
    """Return the error of a response. The body of a proxy's response is not a Status document."""
    try:
        status = json.loads(body)
        return Refusal(response.status, status.get("reason", ""), status.get("message", ""))
    except (ValueError, AttributeError):
        text = body[:300].decode("utf-8", "replace").strip()
        return Refusal(response.status, response.reason or "", text or str(response.reason))


def _words(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
