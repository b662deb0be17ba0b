// Prints docs/reference/typescript.md: `make docs`.

import { callName, openapi, operationsOf, resultOf } from "./operations.mjs";

const HEAD = `# TypeScript client

\`@windlass/client\` has a typed method for every [operation of the API](http-operations.md). \`make docs\` generates
this page. [Use Windlass from TypeScript](../how-to/getting-started-typescript.md) shows how they are used.

The parts of the path are the first arguments. Then comes one object with the other parameters, those of the query and
those of the body together, under the names that the API has; it may be left out if none of them is required. The last
argument, also optional, has \`signal\`, \`timeout\` (in milliseconds) and \`headers\`. Times are ISO strings, and
answers are the \`data\` of the response. \`Pages\` are read with \`for await\`, with \`all(limit)\` or one \`page()\`
at a time; streams are read with \`for await\` and resume a lost connection.

Besides these, \`client.runs.wait(runId, { timeout, signal })\` waits until a run has ended.
`;

function row(operation) {
  const hasParams = operation.query.length > 0 || operation.hasBody;
  const args = [...operation.values.map((one) => one.name), ...(hasParams ? ["params"] : [])].join(", ");
  const text = operation.text.split(/(?<=\.) /)[0].replace(/\.$/, "");
  return `| \`${callName(operation)}(${args})\` | \`${resultOf(operation).replaceAll("|", "\\|")}\` | ${text} |`;
}

const rows = operationsOf(await openapi()).map(row);
process.stdout.write([HEAD, "| operation | returns | |", "|---|---|---|", ...rows, ""].join("\n"));
