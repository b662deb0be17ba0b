import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const root = fileURLToPath(new URL("../..", import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, { default: string; types: string }>;
  [key: string]: unknown;
};
const LIMIT = 20_000; // bytes of the client, gzipped

/** Return the sources of a module and of its relative imports, recursively, and the names of all other imports. */
function reached(entry: string): { sources: Map<string, string>; imports: Set<string> } {
  const [sources, imports, waiting] = [new Map<string, string>(), new Set<string>(), [join(root, entry)]];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (sources.has(path)) continue;
    const source = readFileSync(path, "utf8");
    sources.set(path, source);
    for (const [, name = ""] of source.matchAll(/(?:from|import)\s*\(?"([^"]+)"/g)) {
      if (name.startsWith(".")) waiting.push(join(dirname(path), name));
      else imports.add(name);
    }
  }
  return { sources, imports };
}

test("there are no dependencies at run time", () => {
  for (const kind of ["dependencies", "peerDependencies", "optionalDependencies", "bundledDependencies"]) {
    assert.equal(manifest[kind], undefined, kind);
  }
  assert.deepEqual([...reached(manifest.exports["."]?.default ?? "").imports], []);
  const worker = reached(manifest.exports["./worker"]?.default ?? "");
  assert.ok(worker.imports.has("node:http"));
  assert.deepEqual(
    [...worker.imports].filter((name) => !name.startsWith("node:")),
    [],
  );
});

test("the client is small, even if nothing is minified", (t) => {
  const { sources } = reached(manifest.exports["."]?.default ?? "");
  const { length } = gzipSync([...sources.values()].join("\n"), { level: 9 });
  t.diagnostic(`${length} bytes gzipped`);
  assert.ok(sources.size > 5);
  assert.ok(length < LIMIT, `the client has ${length} bytes gzipped, more than ${LIMIT}`);
});

test("every exported name has a doc comment", () => {
  const files = reached(manifest.exports["."]?.default ?? "").sources;
  for (const [path, source] of reached(manifest.exports["./worker"]?.default ?? "").sources) files.set(path, source);
  const bare: string[] = [];
  for (const path of files.keys()) {
    if (path.endsWith("schema.js")) continue;
    const lines = readFileSync(path.replace(/js$/, "d.ts"), "utf8").split("\n");
    lines.forEach((line, index) => {
      const isDeclared = /^export (declare |type |interface )/.test(line) && !line.startsWith("export type {");
      if (isDeclared && !lines[index - 1]?.trimEnd().endsWith("*/")) bare.push(line);
    });
  }
  assert.deepEqual(bare, []);
});

test("the package has what its entry points name, and nothing of the tests", () => {
  for (const entry of Object.values(manifest.exports)) {
    for (const path of Object.values(entry)) assert.ok(readFileSync(join(root, path), "utf8").length > 0, path);
  }
  assert.deepEqual(manifest.files, ["dist/src"]);
});
