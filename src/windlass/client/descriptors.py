"""Decorators that turn one description of an operation into a method for both clients.

A group of operations is generic over its transport. On the blocking client an operation returns its result, on the
async client an awaitable. A list operation returns an iterable that requests further pages as needed.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from windlass.client.request import Call, Flow
from windlass.client.transport import AsyncTransport, Streamed, SyncTransport
from windlass.schemas.common import Page

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W", bound=SyncTransport | AsyncTransport)


class Group(Generic[W]):
    """Operations that go through one transport."""

    def __init__(self, transport: W) -> None:
        self.transport = transport


def _bound(make: Callable[..., Any], group: Any, perform: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the method of a group that performs the call that `make` describes."""

    @wraps(make)
    def use(*args: Any, **kwargs: Any) -> Any:
        return perform(make(group, *args, **kwargs))

    return use


class operation(Generic[P, T]):  # noqa: N801 - a decorator
    """Decorates an operation that takes one request and returns its result."""

    def __init__(self, make: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, group: Group[SyncTransport], kind: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, group: Group[AsyncTransport], kind: object = None) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, group: Any, kind: object = None) -> Any:
        return self if group is None else _bound(self.make, group, group.transport.call)


class conversation(Generic[P, T]):  # noqa: N801 - a decorator
    """Decorates an operation that takes several requests and returns one result."""

    def __init__(self, make: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, group: Group[SyncTransport], kind: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, group: Group[AsyncTransport], kind: object = None) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, group: Any, kind: object = None) -> Any:
        return self if group is None else _bound(self.make, group, group.transport.carry_out)


class listing(Generic[P, T]):  # noqa: N801 - a decorator
    """Decorates a paginated list. `cursor` is the query parameter that takes the `next` of a page."""

    def __init__(self, cursor: str, make: Callable[Concatenate[Any, P], Call[Page[T]]]) -> None:
        self.cursor, self.make = cursor, make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, group: Group[SyncTransport], kind: object = None) -> "Callable[P, Listed[T]]": ...
    @overload
    def __get__(self, group: Group[AsyncTransport], kind: object = None) -> "Callable[P, AsyncListed[T]]": ...
    def __get__(self, group: Any, kind: object = None) -> Any:
        if group is None:
            return self
        listed = Listed if isinstance(group.transport, SyncTransport) else AsyncListed
        return _bound(self.make, group, lambda call: listed(group.transport, call, self.cursor))


def downwards(make: Callable[Concatenate[Any, P], Call[Page[T]]]) -> listing[P, T]:
    """Decorate a list in descending order, such as newest first: the `next` of a page is passed as `before`."""
    return listing("before", make)


def upwards(make: Callable[Concatenate[Any, P], Call[Page[T]]]) -> listing[P, T]:
    """Decorate a list in ascending order, oldest first or by name: the `next` of a page is passed as `after`."""
    return listing("after", make)


class streaming(Generic[P]):  # noqa: N801 - a decorator
    """Decorates a stream of events, yielded as they arrive."""

    def __init__(self, make: Callable[Concatenate[Any, P], Call[None]]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, group: Group[SyncTransport], kind: object = None) -> Callable[P, Iterator[Streamed]]: ...
    @overload
    def __get__(self, group: Group[AsyncTransport], kind: object = None) -> Callable[P, AsyncIterator[Streamed]]: ...
    def __get__(self, group: Any, kind: object = None) -> Any:
        return self if group is None else _bound(self.make, group, group.transport.stream)


class downloading(Generic[P]):  # noqa: N801 - a decorator
    """Decorates a download, which yields the content of a file in chunks."""

    def __init__(self, make: Callable[Concatenate[Any, P], Call[None]]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, group: Group[SyncTransport], kind: object = None) -> Callable[P, Iterator[bytes]]: ...
    @overload
    def __get__(self, group: Group[AsyncTransport], kind: object = None) -> Callable[P, AsyncIterator[bytes]]: ...
    def __get__(self, group: Any, kind: object = None) -> Any:
        return self if group is None else _bound(self.make, group, group.transport.download)


class Listed(Generic[T]):
    """A list of the API: iterate over all its items, or request one `page()`."""

    def __init__(self, transport: SyncTransport, call: Call[Page[T]], cursor: str) -> None:
        self._transport, self._call, self._cursor = transport, call, cursor

    def page(self) -> Page[T]:
        return self._transport.call(self._call)

    def __iter__(self) -> Iterator[T]:
        call: Call[Page[T]] | None = self._call
        while call is not None:
            page = self._transport.call(call)
            yield from page.items
            call = call.asking(**{self._cursor: page.next}) if page.next is not None else None


class AsyncListed(Generic[T]):
    """A list of the API: iterate over all its items with `async for`, or await one `page()`."""

    def __init__(self, transport: AsyncTransport, call: Call[Page[T]], cursor: str) -> None:
        self._transport, self._call, self._cursor = transport, call, cursor

    async def page(self) -> Page[T]:
        return await self._transport.call(self._call)

    async def __aiter__(self) -> AsyncIterator[T]:
        call: Call[Page[T]] | None = self._call
        while call is not None:
            page = await self._transport.call(call)
            for item in page.items:
                yield item
            call = call.asking(**{self._cursor: page.next}) if page.next is not None else None
