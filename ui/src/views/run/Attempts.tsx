/** The failed attempts of a job, the last one first, with their tracebacks. */
import { Copy } from "../../parts/Copy";
import { Ago } from "../../parts/Time";

interface AttemptError {
  at?: string;
  type?: string;
  attempt?: number;
  message?: string;
  traceback?: string;
}

export function Attempts({ errors }: { errors: Record<string, unknown>[] }) {
  const attempts = [...errors].reverse() as AttemptError[];
  return (
    <section>
      <h3>Failed attempts</h3>
      {attempts.map((error, n) => (
        <details key={n} open={n === 0} className="attempt">
          <summary>
            <strong>{error.attempt ? `Attempt ${error.attempt}` : "Lease expired"}</strong> {error.type && <code>{error.type}</code>} <Ago when={error.at} />
          </summary>
          <p className="message">{error.message}</p>
          {error.traceback && (
            <div className="json">
              <Copy text={error.traceback} label="Copy the traceback" />
              <pre tabIndex={0} aria-label="traceback">
                {error.traceback}
              </pre>
            </div>
          )}
        </details>
      ))}
    </section>
  );
}
