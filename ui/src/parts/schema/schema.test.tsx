/** Forms for JSON Schemas: the field of a schema, initial values, validation, and editing as JSON. */
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { useState } from "react";
import { afterEach, describe, expect, it } from "vitest";
import { Problem } from "../../api/client";
import { check, placed, placesOf, problemOf } from "./check";
import { describe as described, initialValue, Unparsed, type Schema } from "./schema";
import { fromLocal, toLocal } from "./SchemaField";
import { SchemaForm } from "./SchemaForm";

afterEach(cleanup);

const ORDER: Schema = {
  type: "object",
  properties: {
    number: { type: "integer", title: "Order number", minimum: 1 },
    note: { anyOf: [{ type: "string", maxLength: 5 }, { type: "null" }], default: null, description: "for the customer" },
    express: { type: "boolean" },
    speed: { enum: ["slow", "fast"], default: "slow" },
    items: { type: "array", items: { $ref: "#/$defs/Item" }, minItems: 1 },
    ship_to: { $ref: "#/$defs/Address" },
    meta: { type: "object", additionalProperties: true },
  },
  required: ["number", "items"],
  $defs: {
    Item: { type: "object", properties: { sku: { type: "string" }, count: { type: "integer", default: 1 } }, required: ["sku"] },
    Address: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

describe("a schema", () => {
  it.each<[Schema, string]>([
    [{ type: "string" }, "text"],
    [{ type: "string", maxLength: 2000 }, "text"],
    [{ type: ["integer", "null"] }, "number"],
    [{ anyOf: [{ $ref: "#/$defs/Address" }, { type: "null" }] }, "object"],
    [{ allOf: [{ $ref: "#/$defs/Item" }] }, "object"],
    [{ oneOf: [{ const: 1, title: "one" }, { const: 2 }] }, "choice"],
    [{ const: "a" }, "choice"],
    [{ properties: { a: {} } }, "object"],
    [{ type: "array", items: { type: "string" } }, "list"],
    [{ type: "array", prefixItems: [{ type: "string" }] }, "json"],
    [{ type: "object", additionalProperties: { type: "string" } }, "json"],
    [{ anyOf: [{ type: "string" }, { type: "integer" }] }, "json"],
    [{ anyOf: [{ type: "string" }, { type: "integer" }, { type: "null" }] }, "json"],
    [{ type: ["string", "integer"] }, "json"],
    [{ $ref: "#/$defs/Missing" }, "json"],
    [{}, "json"],
  ])("%j is a field of the kind %s", (schema, kind) => {
    expect(described(ORDER, schema).shape.kind).toBe(kind);
  });

  it("has the formats and lengths of its texts, the labels of its choices, and its help", () => {
    expect(described({}, { type: "string", format: "date-time" }).shape).toEqual({ kind: "text", format: "date-time", isLong: false });
    expect(described({}, { type: "string", format: "hostname", maxLength: 2000 }).shape).toEqual({ kind: "text", format: null, isLong: true });
    expect(described({}, { oneOf: [{ const: 1, title: "one" }, { const: 2 }] }).shape).toEqual({ kind: "choice", choices: [{ value: 1, label: "one" }, { value: 2, label: "2" }] });
    const note = described(ORDER, (ORDER["properties"] as Record<string, Schema>)["note"]!);
    expect([note.isNullable, note.description]).toEqual([true, "for the customer"]);
  });

  it("that refers to itself ends", () => {
    const loop: Schema = { $ref: "#/$defs/A", $defs: { A: { $ref: "#/$defs/A" } } };
    expect(described(loop, loop).shape.kind).toBe("json");
  });
});

describe("a form", () => {
  it("begins with the defaults and with what is required", () => {
    expect(initialValue(ORDER, ORDER)).toEqual({ express: false, speed: "slow", items: [] });
    expect(initialValue({}, { properties: { kind: { const: "order" }, to: { type: ["string", "null"] } }, required: ["kind", "to"] })).toEqual({ kind: "order", to: null });
  });

  it("checks what is required, bounds and formats, and names the fields as the server does", () => {
    const value = { number: 0, note: "too long", items: [{ sku: "a" }, { count: 1.5 }], ship_to: {}, meta: new Unparsed("{") };
    expect(check(ORDER, ORDER, value, "input")).toEqual([
      { field: "input.number", message: "must be 1 or more" },
      { field: "input.note", message: "must have at most 5 characters" },
      { field: "input.items.1.sku", message: "is required" },
      { field: "input.items.1.count", message: "must be an integer" },
      { field: "input.ship_to.city", message: "is required" },
      { field: "input.meta", message: "must be JSON" },
    ]);
    expect(check(ORDER, ORDER, { items: [] }, "input").map((each) => each.field)).toEqual(["input.number", "input.items"]);
    expect(problemOf(ORDER, { number: 1, note: null, items: [{ sku: "a" }] }, "input")).toBeNull();
    expect(problemOf({ type: "array", items: {} }, undefined, "input")?.errors).toEqual([{ field: "input", message: "is required" }]);
  });

  it.each<[Schema, unknown, boolean]>([
    [{ format: "uuid" }, "01890a5d-ac96-774b-bcce-b302099a8057", true],
    [{ format: "uuid" }, "7", false],
    [{ format: "email" }, "ada@example.com", true],
    [{ format: "email" }, "ada", false],
    [{ format: "uri" }, "https://example.com", true],
    [{ format: "uri" }, "example", false],
    [{ format: "date" }, "2030-01-31", true],
    [{ format: "date" }, "31.1.2030", false],
    [{ format: "date-time" }, "2030-01-31T12:00:00Z", true],
    [{ format: "date-time" }, "noon", false],
    [{ pattern: "^a+$" }, "aaa", true],
    [{ pattern: "^a+$" }, "b", false],
    [{ pattern: "(?P<python>a)" }, "b", true],
  ])("checks %j: %s", (schema, value, fits) => {
    expect(check({}, { type: "string", ...schema }, value, "x").length === 0).toBe(fits);
  });

  it("shows an error at the closest field, with the rest of its path", () => {
    const places = placesOf(ORDER, ORDER, { items: [{}], meta: {} }, "input");
    const error = placed(new Problem(422, "Invalid", "-", [{ field: "input.items.0.sku", message: "a" }, { field: "input.meta.a.b", message: "b" }, { field: "labels", message: "c" }]), places) as Problem;
    expect(error.errors).toEqual([
      { field: "input.items.0.sku", message: "a" },
      { field: "input.meta", message: "a.b: b" },
      { field: "labels", message: "c" },
    ]);
  });

  it("keeps a time when it is shown in the local zone", () => {
    expect(fromLocal(toLocal("2030-01-31T12:00:05Z")!)).toBe("2030-01-31T12:00:05Z");
    expect([toLocal("noon"), fromLocal("")]).toEqual([null, ""]);
  });
});

function Sample({ error = null, seen }: { error?: unknown; seen: (value: unknown) => void }) {
  const [value, setValue] = useState(initialValue(ORDER, ORDER));
  const change = (next: unknown) => {
    setValue(next);
    seen(next);
  };
  return <SchemaForm schema={ORDER} name="input" label="Input" value={value} change={change} error={error} />;
}

describe("the fields of a form", () => {
  const show = (error: unknown = null) => {
    let last: unknown;
    render(<Sample error={error} seen={(value) => (last = value)} />);
    return () => last;
  };
  const type = (label: string | RegExp, value: string) => fireEvent.change(screen.getByLabelText(label), { target: { value } });

  it("edit one value: texts, numbers, choices, lists and groups", () => {
    const last = show();
    type("Order number (required)", "7");
    type("speed", '"fast"');
    fireEvent.click(screen.getByRole("button", { name: "Add to items" }));
    type("sku (required)", "a-1");
    fireEvent.click(screen.getByRole("button", { name: "Add ship_to" }));
    type("city (required)", "Berlin");
    type("meta", '{"a": 1}');
    expect(last()).toEqual({ number: 7, express: false, speed: "fast", items: [{ sku: "a-1", count: 1 }], ship_to: { city: "Berlin" }, meta: { a: 1 } });
    fireEvent.click(screen.getByRole("button", { name: "Remove ship_to" }));
    fireEvent.click(screen.getByRole("button", { name: "Remove items 1" }));
    type("Order number (required)", "");
    expect(last()).toEqual({ express: false, speed: "fast", items: [], meta: { a: 1 } });
  });

  it("and the JSON are in step, and JSON that is not complete keeps the form away", () => {
    const last = show();
    type("Order number (required)", "7");
    fireEvent.click(screen.getByLabelText("Edit as JSON"));
    const editor = screen.getByLabelText<HTMLTextAreaElement>("Input as JSON");
    expect(JSON.parse(editor.value)).toEqual({ express: false, speed: "slow", items: [], number: 7 });
    type("Input as JSON", '{"number": 8');
    expect(screen.getByText("must be JSON")).toBeDefined();
    expect(screen.getByLabelText<HTMLInputElement>("Edit as JSON").disabled).toBe(true);
    type("Input as JSON", '{"number": 8, "more": true, "note": 5}');
    expect(editor.value).toBe('{"number": 8, "more": true, "note": 5}');
    fireEvent.click(screen.getByLabelText("Edit as JSON"));
    expect(screen.getByLabelText<HTMLInputElement>("Order number (required)").value).toBe("8");
    expect(screen.getByText("Only in the JSON: more")).toBeDefined();
    type("note", "null");
    expect(last()).toEqual({ number: 8, more: true, note: null });
  });

  it("show what the server refused: at the field, or below the form", () => {
    show(new Problem(422, "Invalid", "-", [{ field: "input.number", message: "is too small" }, { field: "input.other", message: "is unknown" }]));
    expect(screen.getByLabelText("Order number (required)").getAttribute("aria-invalid")).toBe("true");
    expect(screen.getByText("is too small")).toBeDefined();
    expect(screen.getByText(/is unknown/)).toBeDefined();
  });
});
