/** Formatted, coloured JSON, truncated if it is very long. */
import { Fragment, useMemo, useState } from "react";
import { Copy } from "./Copy";

const MOST = 40_000;
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export function Json({ value, label }: { value: unknown; label: string }) {
  const [all, setAll] = useState(false);
  const text = useMemo(() => (value === undefined ? "" : JSON.stringify(value, null, 2)), [value]);
  const shown = all ? text : text.slice(0, MOST);
  const pieces = useMemo(() => coloured(shown), [shown]);
  return (
    <div className="json">
      <Copy text={text} label={`Copy ${label}`} />
      <pre tabIndex={0} aria-label={label}>
        {pieces}
      </pre>
      {shown.length < text.length && (
        <button type="button" onClick={() => setAll(true)}>
          show all {text.length.toLocaleString("en")} characters
        </button>
      )}
    </div>
  );
}

function coloured(text: string) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [whole, string, colon] = match;
    if (match.index > from) found.push(<Fragment key={from}>{text.slice(from, match.index)}</Fragment>);
    const kind = string === undefined ? "literal" : colon === undefined ? "text" : "key";
    const end = kind === "key" ? string!.length : whole.length;
    found.push(
      <span key={match.index} className={`j-${kind}`}>
        {whole.slice(0, end)}
      </span>,
    );
    from = match.index + end;
  }
  found.push(<Fragment key={from}>{text.slice(from)}</Fragment>);
  return found;
}
