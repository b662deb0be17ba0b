"""A small Kubernetes API server on loopback: Jobs, Pods, Secrets and Events of a few namespaces.

Documents are validated with the schemas that Kubernetes publishes. Pods run as local processes (kubernetes_node.py).
Patches and other kinds are not implemented: the launcher does not need them.
"""

import asyncio
import base64
import copy
import json
import re
import secrets
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from uuid import uuid4

import kubernetes_validate.utils as published  # type: ignore[import-untyped]
import yaml
from aiohttp import web
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.launchers.kubernetes_node import Node

SCHEMAS = "v1.31.0-local-strict"
KINDS = {"jobs": ("Job", "batch/v1"), "pods": ("Pod", "v1"), "secrets": ("Secret", "v1"), "events": ("Event", "v1")}
NAMESPACES = ("default", "jobs")
is_name = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?").fullmatch
is_label = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?").fullmatch
is_variable = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*").fullmatch
is_quantity = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?").fullmatch

Document = dict[str, Any]


class Refused(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason

    @property
    def document(self) -> Document:
        texts = {"status": "Failure", "message": str(self), "reason": self.reason}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **texts, "code": self.status}


class Fault(NamedTuple):
    """An error that replaces the response of one request with this method for this resource."""

    status: int
    method: str
    resource: str
    reason: str = "InternalError"
    message: str = "etcdserver: request timed out"


class Change(NamedTuple):
    version: int
    resource: str
    kind: str  # ADDED, MODIFIED, DELETED
    document: Document


class Cluster:
    """The state of the API server. Tests read it and inject faults."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.token = secrets.token_hex(8)
        self.objects: dict[tuple[str, str, str], Document] = {}
        self.faults: list[Fault] = []
        self.forbidden: set[tuple[str, str]] = set()  # verb, resource
        self.rules: Sequence[Document] | None = None  # of a role; None: everything is allowed
        self.changed = asyncio.Event()  # replaced after each change
        self.node = Node(self, folder)
        self._version = 100
        self._oldest = 100
        self._history: list[Change] = []
        self._snapshot: dict[tuple[str, str, str], Document] | None = None
        self._dropped = asyncio.Event()

    # For tests

    def named(self, resource: str) -> dict[str, Document]:
        return {name: document for (kind, _, name), document in self.objects.items() if kind == resource}

    def freeze_lists(self) -> None:
        """Return the current state in all lists until `thaw_lists`."""
        self._snapshot = copy.deepcopy(self.objects)

    def thaw_lists(self) -> None:
        self._snapshot = None

    def compact(self) -> None:
        """Drop the history: watches end, and older resource versions and continue tokens expire."""
        self._version += 1
        self._oldest = self._version
        self._history.clear()
        self.drop_watches()

    def drop_watches(self) -> None:
        self._dropped.set()
        self._dropped = asyncio.Event()

    # The store

    def put(self, resource: str, document: Document) -> None:
        """Store a new or changed document."""
        metadata = document["metadata"]
        key = (resource, metadata["namespace"], metadata["name"])
        self._record(resource, "MODIFIED" if key in self.objects else "ADDED", document)
        self.objects[key] = document

    def drop(self, resource: str, document: Document) -> None:
        metadata = document["metadata"]
        if self.objects.pop((resource, metadata["namespace"], metadata["name"]), None) is None:
            return
        self._record(resource, "DELETED", document)
        owned = [
            (kind, other)
            for (kind, _, _), other in self.objects.items()
            if kind == "secrets"
            and any(owner["uid"] == metadata["uid"] for owner in other["metadata"].get("ownerReferences", ()))
        ]
        for kind, other in owned:
            self.drop(kind, other)

    def _record(self, resource: str, kind: str, document: Document) -> None:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self._history.append(Change(self._version, resource, kind, copy.deepcopy(document)))
        self.changed.set()
        self.changed = asyncio.Event()

    # Requests

    def create(self, resource: str, namespace: str, document: Document, *, dry_run: bool) -> Document:
        if namespace not in NAMESPACES:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        validate(resource, document)
        name = document["metadata"]["name"]
        if (resource, namespace, name) in self.objects:
            raise Refused(409, "AlreadyExists", f'{resource} "{name}" already exists')
        stored = copy.deepcopy(document)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        stored["metadata"] |= {"namespace": namespace, "uid": str(uuid4()), "creationTimestamp": now}
        if resource == "secrets":
            values = stored.pop("stringData", {})
            stored["data"] = {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
        if not dry_run:
            self.put(resource, stored)
            if resource == "jobs":
                self.node.admit(stored)
        return stored

    def get(self, resource: str, namespace: str, name: str) -> Document:
        try:
            return self.objects[resource, namespace, name]
        except KeyError:
            raise Refused(404, "NotFound", f'{resource} "{name}" not found') from None

    def list(self, resource: str, namespace: str, query: dict[str, str]) -> Document:
        objects = self.objects if self._snapshot is None else self._snapshot
        chosen = sorted(
            (name, document)
            for (kind, place, name), document in objects.items()
            if (kind, place) == (resource, namespace)
            and selected(document, query.get("labelSelector", ""))
            and (query.get("fieldSelector") or "type=Warning") == "type=Warning"  # all events are warnings
        )
        version, after = self._version, ""
        if token := query.get("continue"):
            version, after = json.loads(base64.b64decode(token))
            if version < self._oldest:
                raise Refused(410, "Expired", "The provided continue parameter is too old")
        rest = [(name, document) for name, document in chosen if name > after]
        page = rest[: int(query.get("limit", "0")) or None]
        metadata = {"resourceVersion": str(version)}
        if len(page) < len(rest):
            metadata["continue"] = base64.b64encode(json.dumps([version, page[-1][0]]).encode()).decode()
        kind, api = KINDS[resource]
        return {"kind": kind + "List", "apiVersion": api, "metadata": metadata, "items": [item for _, item in page]}

    async def watch(self, request: web.Request, resource: str, query: dict[str, str]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        dropped, seen = self._dropped, int(query["resourceVersion"])
        if seen < self._oldest:
            gone = Refused(410, "Expired", f"too old resource version: {seen} ({self._oldest})").document
            await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        end = asyncio.create_task(dropped.wait())
        try:
            while not dropped.is_set():
                changed = asyncio.create_task(self.changed.wait())
                for change in self._history[bisect_right(self._history, seen, key=lambda change: change.version) :]:
                    seen = change.version
                    if change.resource == resource and selected(change.document, query.get("labelSelector", "")):
                        event = {"type": change.kind, "object": change.document}
                        await response.write(json.dumps(event).encode() + b"\n")
                await asyncio.wait([changed, end], return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            end.cancel()
        return response


def selected(document: Document, selector: str) -> bool:
    labels = document["metadata"].get("labels", {})
    return all(
        labels.get(key) == value for key, _, value in (part.partition("=") for part in selector.split(",") if part)
    )


# Validation


@cache
def validator(kind: str, api: str) -> Draft202012Validator:
    folder = f"kubernetes-json-schema/{SCHEMAS}"
    schema = published.schema_contents(f"{folder}/{kind}-{api.replace('/', '-')}.json".lower(), "1.31")
    definitions = published.schema_contents(f"{folder}/_definitions.json", "1.31")
    registry: Registry[Any] = Resource.from_contents(definitions) @ (Resource.from_contents(schema) @ Registry())
    return Draft202012Validator(schema, registry=registry)


def validate(resource: str, document: Document) -> None:
    """Raise the error that the API returns for an invalid document."""
    kind, api = KINDS[resource]
    name = document.get("metadata", {}).get("name", "")
    for error in validator(kind, api).iter_errors(document):
        path = ".".join(str(part) for part in error.path)
        raise Refused(400, "BadRequest", f"{kind} in version {api} cannot be handled: {path}: {error.message}")
    for field, value in problems(document):
        raise Refused(422, "Invalid", f'{kind} "{name}" is invalid: {field}: Invalid value: "{value}"')


def problems(document: Document) -> list[tuple[str, str]]:
    """Return invalid fields that the API rejects and the schemas do not."""
    found = [("metadata.name", document["metadata"]["name"])] if not is_name(document["metadata"]["name"]) else []
    labels = document["metadata"].get("labels", {})
    found += [("metadata.labels", value) for value in labels.values() if not is_label(value)]
    found += [("data", key) for key in document.get("stringData", {}) if not is_variable(key)]
    if document["kind"] == "Job":
        for container in document["spec"]["template"]["spec"]["containers"]:
            found += [("env.name", entry["name"]) for entry in container["env"] if not is_variable(entry["name"])]
            limits = container.get("resources", {}).get("limits", {})
            found += [(f"resources.limits[{key}]", value) for key, value in limits.items() if not is_quantity(value)]
    return found


# The server

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """The HTTP side of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._answer])
        for prefix, kinds in (("/apis/batch/v1", "jobs"), ("/api/v1", "pods|secrets|events")):
            path = f"{prefix}/namespaces/{{namespace}}/{{resource:{kinds}}}"
            app.router.add_route("*", path, self._collection)
            app.router.add_route("*", path + "/{name}", self._object)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}/log", self._log)
        return app

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        cluster = self._cluster
        try:
            for fault in cluster.faults:
                if fault.method == request.method and f"/{fault.resource}" in request.path:
                    cluster.faults.remove(fault)
                    raise Refused(fault.status, fault.reason, fault.message)
            if request.headers.get("Authorization") != f"Bearer {cluster.token}":
                raise Refused(401, "Unauthorized", "Unauthorized")
            authorize(cluster, request)
            return await handler(request)
        except Refused as refused:
            return web.json_response(refused.document, status=refused.status)

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        resource, namespace = request.match_info["resource"], request.match_info["namespace"]
        query = dict(request.query)
        if request.method == "POST":
            dry_run, document = query.get("dryRun") == "All", await request.json()
            return web.json_response(self._cluster.create(resource, namespace, document, dry_run=dry_run), status=201)
        if query.get("watch") == "true":
            return await self._cluster.watch(request, resource, query)
        return web.json_response(self._cluster.list(resource, namespace, query))

    async def _object(self, request: web.Request) -> web.StreamResponse:
        resource, namespace, name = (request.match_info[part] for part in ("resource", "namespace", "name"))
        document = self._cluster.get(resource, namespace, name)
        if request.method == "DELETE" and request.query.get("dryRun") != "All":
            self._cluster.node.delete(resource, document, request.query.get("propagationPolicy", "Background"))
        return web.json_response(document)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        pod = self._cluster.get("pods", request.match_info["namespace"], request.match_info["name"])
        text = self._cluster.node.log(pod)
        if text is None:
            raise Refused(400, "BadRequest", 'container "windlass" is waiting to start: ContainerCreating')
        lines = text.splitlines(keepends=True)[-int(request.query.get("tailLines", "1000000")) :]
        return web.Response(body=b"".join(lines), content_type="text/plain")


def authorize(cluster: Cluster, request: web.Request) -> None:
    parts = request.path.split("/namespaces/")[1].split("/")
    namespace, resource = parts[0], parts[1] if len(parts) < 4 else "pods/log"
    reading = "get" if len(parts) > 2 else "watch" if request.query.get("watch") == "true" else "list"
    verb = {"POST": "create", "DELETE": "delete"}.get(request.method, reading)
    user, group = "system:serviceaccount:windlass:worker", "batch" if resource == "jobs" else ""
    allowed = cluster.rules is None or any(
        group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"] for rule in cluster.rules
    )
    if not allowed or (verb, resource) in cluster.forbidden:
        raise Refused(
            403,
            "Forbidden",
            f'{resource} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{group}" in the'
            f' namespace "{namespace}"',
        )


@asynccontextmanager
async def kubernetes_cluster() -> AsyncIterator[Cluster]:
    """Serve a cluster; end all its processes at the end."""
    with TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        runner = web.AppRunner(Server(cluster).application(), shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        cluster.kubeconfig.write_text(yaml.safe_dump(kubeconfig(f"http://{host}:{port}", cluster.token)))
        try:
            yield cluster
        finally:
            cluster.drop_watches()
            await cluster.node.close()
            await runner.cleanup()


@asynccontextmanager
async def kubernetes_api() -> AsyncIterator[Path]:
    """Serve a cluster; yield the path of its kubeconfig."""
    async with kubernetes_cluster() as cluster:
        yield cluster.kubeconfig


def kubeconfig(server: str, token: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
