/** A labelled field of a form. The server's error message for the field is shown below it. */
import { createContext, useContext, useId, type ReactNode } from "react";
import { Problem } from "../api/client";

export const Mistakes = createContext<unknown>(null);

interface Props {
  name: string; // in the API
  label: string;
  hint?: ReactNode;
  children: (input: { id: string; "aria-invalid": boolean; "aria-describedby"?: string }) => ReactNode;
}

export function Field({ name, label, hint, children }: Props) {
  const id = useId();
  const message = mistakeAt(useContext(Mistakes), name);
  const described = [hint ? `${id}-hint` : "", message ? `${id}-mistake` : ""].filter(Boolean).join(" ");
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-invalid": message !== null, ...(described ? { "aria-describedby": described } : {}) })}
      {hint && (
        <p className="dim field-note" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {message && (
        <p className="mistake field-note" id={`${id}-mistake`} role="alert">
          {message}
        </p>
      )}
    </div>
  );
}

/** Return the server's error message for a field, null if there is none. */
export function mistakeAt(error: unknown, name: string): string | null {
  return (error instanceof Problem && error.errors.find((each) => each.field === name)?.message) || null;
}

/** Return the error without the mistakes that are shown at these fields, null if none is left. */
export function unplaced(error: unknown, fields: string[]): unknown {
  if (!(error instanceof Problem) || error.errors.length === 0) return error;
  const rest = error.errors.filter((each) => !fields.includes(each.field));
  if (rest.length === 0) return null;
  return rest.length === error.errors.length ? error : new Problem(error.status, error.title, rest[0]!.message, rest);
}
