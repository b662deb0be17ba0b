/** A text editor that shows the first error while you type. Tab moves the focus, as everywhere. */
import { useId } from "react";

export interface Mistake {
  message: string;
  line?: number | undefined;
}

interface Props {
  label: string;
  value: string;
  onChange: (text: string) => void;
  mistake?: Mistake | null;
  rows?: number;
}

export function Editor({ label, value, onChange, mistake = null, rows = 12 }: Props) {
  const id = useId();
  return (
    <div className="editor">
      <label htmlFor={id}>{label}</label>
      <textarea
        id={id}
        value={value}
        rows={rows}
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        aria-invalid={mistake !== null}
        aria-describedby={`${id}-mistake`}
        onChange={(event) => onChange(event.target.value)}
      />
      <p id={`${id}-mistake`} className="mistake" role="status">
        {mistake && (mistake.line ? `line ${mistake.line}: ${mistake.message}` : mistake.message)}
      </p>
    </div>
  );
}

/** Return the value of a JSON text, or its error with the line. */
export function parseJson(text: string): { value: unknown; mistake: null } | { value: undefined; mistake: Mistake } {
  if (text.trim() === "") return { value: undefined, mistake: { message: "must not be empty; write {} for an empty input" } };
  try {
    return { value: JSON.parse(text), mistake: null };
  } catch (error) {
    const message = (error as Error).message.replace(/^JSON\.parse: /, "");
    const place = /position (\d+)/.exec(message)?.[1];
    const line = place === undefined ? text.split("\n").length : text.slice(0, Number(place)).split("\n").length;
    return { value: undefined, mistake: { message: message.replace(/ \(line.*\)$/, ""), line } };
  }
}
