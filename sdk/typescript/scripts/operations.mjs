// Reads the OpenAPI document of the SDKs.

import { readFile } from "node:fs/promises";

const PREFIX = "/api/v1";
const METHODS = ["get", "post", "put", "patch", "delete"];

export const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
export const pascal = (name) => camel(name).replace(/^\w/, (letter) => letter.toUpperCase());

/** Return the document. */
export async function openapi() {
  return JSON.parse(await readFile(new URL("../../openapi.json", import.meta.url), "utf8"));
}

/** Return every operation of the document, in the form that generate.mjs and reference.mjs need. */
export function operationsOf(document) {
  const operations = [];
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const method of METHODS.filter((one) => one in methods)) {
      const operation = methods[method];
      operations.push(describe(document, path, method, operation));
      const text = operation["x-windlass-text"];
      if (text) operations.push({ ...describe(document, path, method, operation), ...names(text), kind: "text" });
    }
  }
  return operations.sort((one, other) => (one.id < other.id ? -1 : 1));
}

function names(id) {
  const [group, name] = id.includes(".") ? id.split(".") : ["", id];
  return { id, group, name: camel(name) };
}

function describe(document, path, method, operation) {
  const parameters = operation.parameters ?? [];
  const query = parameters.filter((one) => one.in === "query");
  const body = operation.requestBody?.content["application/json"].schema;
  const fields = body === undefined ? {} : (resolve(document, body).properties ?? {});
  const doubled = query.filter((one) => one.name in fields);
  if (doubled.length) throw new Error(`${operation.operationId}: ${doubled[0].name} is in the query and in the body`);
  return {
    ...names(operation.operationId),
    key: operation.operationId,
    method: method.toUpperCase(),
    path: path.slice(PREFIX.length),
    // In the order of the path.
    values: [...path.matchAll(/{(\w+)}/g)].map(([, name]) => {
      const { schema } = parameters.find((one) => one.in === "path" && one.name === name);
      return { name: camel(name), type: ["integer", "number"].includes(schema.type) ? "number" : "string" };
    }),
    query: query.map((one) => one.name),
    hasBody: body !== undefined,
    isDocument: body?.$ref !== undefined,
    needsParams: query.some((one) => one.required) || (resolve(document, body)?.required ?? []).length > 0,
    kind: operation["x-windlass-kind"],
    cursor: operation["x-windlass-cursor"],
    type: answerType(document, operation),
    text: [operation.summary, operation.description].filter(Boolean).join(". ").replace(/\.\. /g, ". "),
  };
}

function resolve(document, schema) {
  return schema?.$ref ? document.components.schemas[schema.$ref.split("/").pop()] : schema;
}

/** Return the type of `data`, or of its items if the answer is a page. */
function answerType(document, operation) {
  const schemas = Object.values(operation.responses).flatMap((one) => one.content?.["application/json"]?.schema ?? []);
  const answers = schemas.flatMap((one) => one.anyOf ?? [one]).map((one) => resolve(document, one).properties.data);
  const isPage = operation["x-windlass-kind"] === "page";
  return [...new Set(answers.map((data) => typeName(isPage ? data.items : data)))].join(" | ") || "void";
}

function typeName(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  return schema.type === "array" ? `${typeName(schema.items)}[]` : "unknown";
}

/** Return the name under which a program calls an operation. */
export function callName(operation) {
  return `client.${operation.group ? `${camel(operation.group)}.` : ""}${operation.name}`;
}

/** Return the type of the value that an operation returns. */
export function resultOf(operation) {
  return {
    one: `Promise<${operation.type}>`,
    page: `Pages<${operation.type}>`,
    stream: "AsyncGenerator<StreamEvent, void>",
    download: "AsyncGenerator<Uint8Array, void>",
    text: "Promise<string>",
    none: "Promise<void>",
  }[operation.kind];
}
