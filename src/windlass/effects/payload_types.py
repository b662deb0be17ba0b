"""Derives a converter and a JSON Schema of payloads from the annotations of a handler's parameters.

pydantic does both. It is imported when the first handler with annotations is registered: importing it takes longer than
importing everything else, and most commands have no handlers.
"""

import functools
import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints

from windlass.core.jobs.payloads import MORE, POSITIONAL, is_object_schema
from windlass.errors import Invalid

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MOST_PROBLEMS = 3  # in a message
DIGEST_LENGTH = 16
ANYTHING = (inspect.Parameter.empty, Any, object)


@dataclass(frozen=True, slots=True, eq=False)
class PayloadType:
    """The type of a handler's payload: its converter and its JSON Schema."""

    schema: Mapping[str, Any]  # of the payload
    schema_text: str  # the same as JSON
    digest: str  # of the schema
    validate: Callable[[Any], Any]  # raises pydantic's ValidationError

    def convert(self, payload: Any) -> Any:
        """Return the converted parameters or whole payload; raise `Invalid` with the paths of the wrong values."""
        try:
            return self.validate(payload)
        except ValueError as error:
            raise _misfit(error) from None

    def convert_whole(self, payload: Any) -> Any:
        """Convert a whole payload. An object may also be the only item of an array: `args` of the Open Job Spec."""
        is_wrapped = isinstance(payload, list) and len(payload) == 1 and is_object_schema(self.schema)
        return self.convert(payload[0] if is_wrapped else payload)


def payload_type(
    type_: str,
    call: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    *,
    is_whole: bool,
    takes_any: bool,
    takes_more: bool,
) -> PayloadType | None:
    """Return the type of a handler's payload; None if no parameter has an annotation.

    `is_whole`: the only parameter takes the whole payload; `takes_any`: the handler has **kwargs; `takes_more`: *args.
    """
    annotations = {parameter.name: _resolved(type_, call, parameter) for parameter in parameters}
    if all(annotation in ANYTHING for annotation in annotations.values()):
        return None
    described = {name: _described(annotation) for name, annotation in annotations.items()}
    if is_whole:
        [annotation] = described.values()
        adapter, schema = _compiled(type_, described, lambda: annotation)
    else:
        required = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
        adapter, schema = _compiled(type_, described, lambda: _fields(described, required))
        schema = _of_parameters(schema, parameters, takes_any=takes_any, takes_more=takes_more)
    text = json.dumps(schema)
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
    return PayloadType(schema, text, digest, adapter.validator.validate_python)


def schema_of(annotation: Any, field: str) -> dict[str, Any]:
    """Return the JSON Schema of a type; raise `Invalid` about `field` if it has none."""
    from pydantic import TypeAdapter

    try:
        return TypeAdapter(_described(annotation)).json_schema(schema_generator=_generator())
    except Exception as error:
        raise Invalid(
            f"{field} is {annotation!r}, which no JSON value can be converted to ({_first_line(error)}):"
            " use a dataclass, a TypedDict or a BaseModel",
            field=field,
        ) from None


def _resolved(type_: str, call: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return the annotation of a parameter, with the names in strings resolved in the module of the handler."""
    if parameter.annotation in ANYTHING:
        return Any
    holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return get_type_hints(holder, _namespace(call), include_extras=True)[parameter.name]
    except Exception as error:  # an annotation may be any expression
        raise Invalid(
            f"parameter {parameter.name!r} of the handler of {type_} has the annotation {parameter.annotation!r}, which"
            f" cannot be resolved ({error}): import or define its names in the module of the handler, above it",
            field=parameter.name,
        ) from None


def _namespace(call: Callable[..., Any]) -> dict[str, Any]:
    function: Any = inspect.unwrap(call)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    if inspect.isclass(function):
        return vars(sys.modules[function.__module__])
    if not hasattr(function, "__globals__"):  # a callable object
        function = type(function).__call__
    return getattr(function, "__globals__", {})


def _described(annotation: Any) -> Any:
    """Return an annotation in which the strings of `Annotated[int, "..."]` are descriptions for the schema."""
    if get_origin(annotation) is not Annotated:
        return annotation
    from pydantic import Field

    base, *details = get_args(annotation)
    fields = [Field(description=detail) if isinstance(detail, str) else detail for detail in details]
    return Annotated[(base, *fields)]


def _fields(annotations: Mapping[str, Any], required: set[str]) -> Any:
    # Not a model: its fields must not have the names of its methods. Omitted values get no default here: the function
    # supplies it.
    from typing_extensions import TypedDict  # pydantic rejects that of `typing` before Python 3.12

    members = {name: (Required if name in required else NotRequired)[kind] for name, kind in annotations.items()}
    return TypedDict("Payload", members)  # type: ignore[operator]


def _compiled(
    type_: str, annotations: Mapping[str, Any], make: Callable[[], Any]
) -> "tuple[TypeAdapter[Any], dict[str, Any]]":
    """Return the converter and the schema of a type; raise `Invalid` that names the parameter if there is none."""
    from pydantic import TypeAdapter

    generator = _generator()
    try:
        adapter = TypeAdapter(make())
        return adapter, adapter.json_schema(schema_generator=generator)
    except Exception as error:
        name, cause = _culprit(annotations) or (next(iter(annotations)), error)
        raise Invalid(
            f"parameter {name!r} of the handler of {type_} has the annotation {annotations[name]!r}, which no JSON"
            f" value can be converted to ({_first_line(cause)}): use types that pydantic supports, or leave it out",
            field=name,
        ) from None


def _culprit(annotations: Mapping[str, Any]) -> tuple[str, Exception] | None:
    from pydantic import TypeAdapter

    for name, annotation in annotations.items():
        try:
            TypeAdapter(annotation).json_schema(schema_generator=_generator())
        except Exception as error:
            return name, error
    return None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__


@functools.cache
def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False  # a title would only repeat the name of the field

        def decimal_schema(self, schema: Any) -> Any:
            """Remove the pattern of numbers in strings: the linear-time engine of our validator does not support it."""
            made = super().decimal_schema(schema)
            for option in made.get("anyOf", [made]):
                option.pop("pattern", None)
            return made

    return Generator


def _of_parameters(
    schema: Mapping[str, Any], parameters: Sequence[inspect.Parameter], *, takes_any: bool, takes_more: bool
) -> dict[str, Any]:
    """Complete the schema of an object whose fields are parameters."""
    fields = {name: {**field} for name, field in schema["properties"].items()}
    for parameter in parameters:
        if parameter.default is not parameter.empty:
            fields[parameter.name] |= _default(parameter.default)
    completed = {name: value for name, value in schema.items() if name != "title"} | {"properties": fields}
    positional = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    completed |= {} if takes_any else {"additionalProperties": False}
    return completed | {POSITIONAL: [*positional, MORE] if takes_more else positional}


def _default(value: Any) -> dict[str, Any]:
    """Return the default of a parameter for its schema, if it is a JSON value."""
    from pydantic_core import to_jsonable_python

    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False)
    except ValueError:
        return {}
    return {"default": plain}


def _misfit(error: ValueError) -> Invalid:
    """Return the error for a payload, with the paths of the wrong values but not the values: they may be secret."""
    from pydantic import ValidationError

    assert isinstance(error, ValidationError)
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    named = [(".".join(map(str, problem["loc"])) or "payload", _lowered(problem["msg"])) for problem in problems]
    text = "; ".join(f"{path}: {message}" for path, message in named[:MOST_PROBLEMS])
    more = f"; and {len(named) - MOST_PROBLEMS} more" if len(named) > MOST_PROBLEMS else ""
    return Invalid(text + more, field=named[0][0])


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
