"""Writes the generated files of the Go SDK from `sdk/openapi.json`: `python -m tools.sdk_go`.

The output is formatted as gofmt formats it, so that the check that it is current needs no Go.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.go_types import (
    COLUMNS,
    HEADER,
    Schema,
    Types,
    camel,
    columns,
    comment,
    parameter,
    ref_name,
    scalar,
    without_null,
)

ROOT = Path(__file__).parents[1] / "sdk"
NULL_IS_A_VALUE = {"plans.put"}  # operations where null and a field that is left out mean different things
SECONDS = {"wait"}  # numbers that are durations
HANDLED = {"Last-Event-ID", "format"}  # parameters that the SDK sets on its own


@dataclass(frozen=True)
class Input:
    """A field of the parameters of an operation."""

    wire: str
    place: str  # query, header or body
    kind: str
    is_required: bool = False

    @property
    def name(self) -> str:
        return camel(self.wire)

    @property
    def is_set(self) -> str:
        """Return the condition under which the field is sent."""
        value = f"p.{self.name}"
        if self.kind == "bool":
            return value
        if self.kind == "time.Time":
            return f"!{value}.IsZero()"
        if self.kind in ("string", "StreamKind"):
            return f'{value} != ""'
        if self.kind in ("int", "time.Duration"):
            return f"{value} != 0"
        return f"{value} != nil"

    @property
    def value(self) -> str:
        """Return the Go expression of the value that is encoded as JSON."""
        value = f"p.{self.name}"
        if self.kind == "time.Duration":
            return f"{value}.Seconds()"
        if self.kind.startswith("*") and self.kind[1:] in ("int", "bool", "float64"):
            return "*" + value
        if self.kind.startswith("*") and "Nullable" not in self.kind:
            return f"{value}.fields()"
        if self.kind.startswith("[]") and self.kind[2:3].isupper():
            return f"each({value})"
        return value


@dataclass
class Inputs:
    """The types of parameters, in the order in which operations need them."""

    types: Types
    structs: dict[str, list[Input]] = field(default_factory=dict)
    shapes: list[tuple[Any, str]] = field(default_factory=list)

    def of(self, schema: Schema, wire: str, owner: str, *, is_nullable_value: bool = False) -> str:
        schema, _ = without_null(schema)
        if (name := ref_name(schema)) is not None:
            return self.types.use(name, owner)
        match schema.get("type"):
            case "integer" if is_nullable_value:
                return "*Nullable[int64]"
            case "integer":
                return "int" if schema.get("minimum", 0) >= 1 else "*int"
            case "number" if wire in SECONDS:
                return "time.Duration"
            case "boolean" if schema.get("default") is False:
                return "bool"
            case "array":
                return "[]" + self.of(schema["items"], wire.removesuffix("s"), owner).lstrip("*")
            case "object":
                return self._object(schema, wire, owner)
            case None:
                return "any"
            case _:
                return scalar(schema, "*").replace("*time", "time")

    def _object(self, schema: Schema, wire: str, owner: str) -> str:
        if "properties" in schema:
            return "*" + self._struct(schema, wire, owner)
        return "map[string]string" if isinstance(schema.get("additionalProperties"), dict) else "map[string]any"

    def _struct(self, schema: Schema, wire: str, owner: str) -> str:
        for shape, name in self.shapes:
            if shape == schema:
                return name
        name = owner.removesuffix("Params") + camel(wire)
        self.shapes.append((schema, name))
        self.structs[name] = list(self.body(schema, name))
        return name

    def body(self, schema: Schema, owner: str, *, are_nullable_values: bool = False) -> Iterator[Input]:
        required = schema.get("required", ())
        for name, value in schema.get("properties", {}).items():
            kind = self.of(value, name, owner, is_nullable_value=are_nullable_values)
            yield Input(name, "body", kind, name in required)

    def declaration(self, name: str, text: str) -> str:
        fields = self.structs[name]
        rows = [(one.name, one.kind) for one in fields]
        body = [one for one in fields if one.place == "body"]
        required = [one.name for one in fields if one.is_required]
        note = f" Required: {', '.join(required)}." if required else ""
        out = comment(text + note) + f"type {name} struct {{\n{columns(rows)}}}\n"
        if not body:
            return out
        lines = [f"\tfields := make(map[string]any, {len(body)})\n"]
        for one in body:
            if one.is_required:
                lines.append(f'\tfields["{one.wire}"] = {one.value}\n')
            else:
                lines.append(f'\tif {one.is_set} {{\n\t\tfields["{one.wire}"] = {one.value}\n\t}}\n')
        return out + f"\nfunc (p *{name}) fields() map[string]any {{\n{''.join(lines)}\treturn fields\n}}\n"


@dataclass
class Operation:
    """One operation of the document, as a method in Go."""

    method: str
    path: str
    document: Schema
    types: Types
    inputs: Inputs

    def __post_init__(self) -> None:
        group, _, name = self.document["operationId"].rpartition(".")
        self.group, self.name = group, camel(name)
        self.receiver = f"{camel(group)}Service" if group else "Client"
        self.title = f"{self.receiver}.{self.name}"
        self.kind, self.cursor = self.document["x-windlass-kind"], self.document.get("x-windlass-cursor", "")
        self.params = f"{camel(group)}{self.name}Params"
        self.body = self._body()
        fields = self._fields()
        if fields:
            self.inputs.structs[self.params] = fields
        self.fields = fields

    def _body(self) -> Schema | None:
        content = self.document.get("requestBody", {}).get("content", {}).get("application/json")
        return None if content is None else content["schema"]

    @property
    def whole_body(self) -> str:
        """Return the name of the argument for a body that is not an object of fields."""
        if self.body is None or "properties" in self.body:
            return ""
        return "definition" if ref_name(self.body) == "WorkflowDefinition" else "body"

    def _fields(self) -> list[Input]:
        fields = []
        for one in self.document.get("parameters", ()):
            if one["in"] != "path" and one["name"] not in HANDLED:
                kind = (
                    "string" if one["name"] == self.cursor else self.inputs.of(one["schema"], one["name"], self.title)
                )
                fields.append(Input(one["name"], one["in"], kind))
        names = {one.name for one in fields}
        if self.body is not None and not self.whole_body:
            is_nullable = self.document["operationId"] in NULL_IS_A_VALUE
            body = self.inputs.body(self.body, self.params, are_nullable_values=is_nullable)
            fields += [one for one in body if one.name not in names]
        return sorted(fields, key=lambda one: not one.is_required)

    @property
    def answer(self) -> str:
        """Return the Go type of the data in the response."""
        for status, response in sorted(self.document["responses"].items()):
            content = response.get("content", {}).get("application/json")
            if status.startswith("2") and content is not None:
                schema = content["schema"]
                schema = (
                    schema["anyOf"][-1] if "anyOf" in schema else schema
                )  # the last schema has all fields of the others
                data = self.types.schemas[ref_name(schema) or ""]["properties"]["data"]
                return self.types.of(data["items"] if self.is_page else data, self.title)
        raise ValueError(f"{self.title} has no answer")

    @property
    def is_page(self) -> bool:
        schemas = json.dumps(self.document["responses"])
        return self.kind == "page" or "/Listing_" in schemas

    def render(self) -> Iterator[str]:
        if self.fields:
            yield self.inputs.declaration(self.params, f"{self.params} are the parameters of [{self.title}].")
        if self.is_page:
            yield self._method(self.name, f"iter.Seq2[{self.answer}, error]", "all", f', "{self.cursor}"')
            note = f"{self.name}Page returns one page of [{self.title}]."
            yield self._method(f"{self.name}Page", f"(*Page[{self.answer}], error)", "page", doc=note)
            if text := self.document.get("x-windlass-text"):
                name = camel(text.rpartition(".")[2])
                note = f"{name} returns the lines of [{self.title}] as plain text."
                yield self._method(name, "(string, error)", "text", doc=note, extra='\tquery.Set("format", "text")\n')
        elif self.kind == "stream":
            yield self._method(self.name, "iter.Seq2[Event, error]", "events")
        elif self.kind == "download":
            yield self._method(self.name, "(*Download, error)", "download")
        elif self.kind == "none":
            yield self._method(self.name, "error", "none")
        elif self.answer == "json.RawMessage":
            yield self._method(self.name, "(json.RawMessage, error)", "raw")
        else:
            yield self._method(self.name, f"(*{self.answer}, error)", "one")

    def _doc(self) -> str:
        summary = self.document["summary"]
        if summary.partition(" ")[0] != self.name:
            summary = f"{self.name}: {summary[0].lower()}{summary[1:]}"
        return f"{summary}. {self.document.get('description', '')}"

    def _method(self, name: str, result: str, function: str, more: str = "", doc: str = "", extra: str = "") -> str:
        paths = re.findall(r"\{(\w+)\}", self.path)
        kinds = {one["name"]: self.inputs.of(one["schema"], one["name"], self.title).lstrip("*")
                 for one in self.document.get("parameters", ()) if one["in"] == "path"}  # fmt: skip
        arguments = ["ctx context.Context"]
        for n, one in enumerate(paths):
            is_shared = n + 1 < len(paths) and kinds[one] == kinds[paths[n + 1]]  # a, b string
            arguments.append(parameter(one) + ("" if is_shared else f" {kinds[one]}"))
        if self.whole_body:
            arguments.append(f"{self.whole_body} any")
        if self.fields:
            arguments.append(f"p *{self.params}")
        opening, closing = f"func (s *{self.receiver}) {name}(", f") {result} {{\n"
        signature = opening + ", ".join(arguments) + closing
        if len(signature) > COLUMNS:
            signature = f"{opening}\n\t{', '.join(arguments)},\n{closing}"
        generic = f"[{self.answer}]" if function in ("one", "page", "all") else ""
        return (
            comment(doc or self._doc()) + f"//\n//\t{self.method.upper()} {self.path}\n" + signature
            + "".join(self._call(paths, extra)) + f"\treturn {function}{generic}(ctx, s.transport, c{more})\n}}\n"
        )  # fmt: skip

    def _call(self, paths: list[str], extra: str) -> Iterator[str]:
        if self.fields:
            yield f"\tif p == nil {{\n\t\tp = &{self.params}{{}}\n\t}}\n"
        query = [one for one in self.fields if one.place == "query"]
        if query or extra:
            yield "\tquery := url.Values{}\n"
            yield from map(_add, query)
            yield extra
        filled = re.sub(r"\{\w+\}", "%s", self.path)
        escaped = ", ".join(f"segment({parameter(one)})" for one in paths)
        if paths:
            yield f'\tpath := fmt.Sprintf("{filled}", {escaped})\n'
        path = "path" if paths else f'"{self.path}"'
        rest = ", query: query" if query or extra else ""
        if self.whole_body:
            rest += f", body: {self.whole_body}"
        elif any(one.place == "body" for one in self.fields):
            rest += ", body: p.fields()"
        if any(one.wire == "wait" for one in self.fields):
            rest += ", wait: p.Wait"
        yield f'\tc := &call{{method: "{self.method.upper()}", path: {path}{rest}}}\n'
        for one in self.fields:
            if one.place == "header":
                yield f'\tif {one.is_set} {{\n\t\tc.header = http.Header{{"{one.wire}": {{p.{one.name}}}}}\n\t}}\n'


def _add(one: Input) -> str:
    """Return the statement that adds a field to a query."""
    value = "*p." + one.name if one.kind.startswith("*") else "p." + one.name
    if one.kind.startswith("[]"):
        return f'\tfor _, value := range p.{one.name} {{\n\t\tquery.Add("{one.wire}", string(value))\n\t}}\n'
    text = {"time.Time": f"{value}.Format(time.RFC3339Nano)", "time.Duration": f"fmt.Sprint({value}.Seconds())",
            "string": value}.get(one.kind, f"fmt.Sprint({value})")  # fmt: skip
    return f'\tif {one.is_set} {{\n\t\tquery.Set("{one.wire}", {text})\n\t}}\n'


def _clients(operations: list[Operation]) -> str:
    """Return the client with its groups."""
    groups = sorted({one.group for one in operations if one.group})
    rows = [(camel(group), f"*{camel(group)}Service") for group in groups]
    text = "Client has every operation of the HTTP API, in groups by noun. It is safe for concurrent use."
    out = comment(text) + f"type Client struct {{\n{columns([*rows, ('transport', '*transport')])}}}\n\n"
    values = [(f"{camel(group)}:", f"&{camel(group)}Service{{t}},") for group in groups]
    filled = columns([*values, ("transport:", "t,")], "\t\t")
    out += f"func newClient(t *transport) *Client {{\n\treturn &Client{{\n{filled}\t}}\n}}\n"
    for group in groups:
        name = f"{camel(group)}Service"
        note = f"{name} has the operations of {group.replace('_', ' ')}."
        out += "\n" + comment(note) + f"type {name} struct{{ transport *transport }}\n"
    return out


def generate(document: Schema) -> dict[str, str]:
    """Return the content of each generated file."""
    schemas = document["components"]["schemas"]
    types = Types(schemas)
    inputs = Inputs(types)
    operations = [
        Operation(method, path, operation, types, inputs)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    operations.sort(key=lambda one: (one.group, one.name))
    rendered = [_clients(operations), *(part for one in operations for part in one.render())]
    nested = [name for name in inputs.structs if name not in {one.params for one in operations}]
    rendered += [inputs.declaration(name, f"{name} is part of the parameters of an operation.") for name in nested]
    imports = "".join(
        f'\t"{name}"\n' for name in ("context", "encoding/json", "fmt", "iter", "net/http", "net/url", "time")
    )
    types.use("FieldProblem", "Error")
    return {
        "operations.go": "\n".join([HEADER, f"import (\n{imports})\n", *rendered]),
        "types.go": "\n".join(types.render()),
    }


def main() -> None:
    document = json.loads((ROOT / "openapi.json").read_text())
    for name, content in generate(document).items():
        (ROOT / "go" / name).write_text(content)


if __name__ == "__main__":
    main()
