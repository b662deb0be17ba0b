/** A bulk action: counts, asks for confirmation, then processes batches until all are done or the dialog is closed. */
import { useQuery } from "@tanstack/react-query";
import { useId, useRef, useState, type ReactNode } from "react";
import { Dialog } from "./Dialog";
import { Found, Trouble } from "./Feedback";
import { plural } from "./words";

export interface Batch {
  done: number;
  left: number;
  next: string | null;
}

export interface Part {
  dry_run?: boolean;
  limit?: number;
  before?: string;
}

interface Props {
  title: string;
  question: ReactNode; // before the number
  noun: string;
  verb: string;
  past: string;
  danger?: boolean;
  send: (part: Part) => Promise<Batch>;
  then: () => void;
  onClose: () => void;
}

const BATCH = 200;

export function Batches({ title, question, noun, verb, past, danger = false, send, then, onClose }: Props) {
  const [done, setDone] = useState<number | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const stopped = useRef(false);
  const count = useQuery({ queryKey: ["batches", useId()], queryFn: () => send({ dry_run: true }), gcTime: 0 });

  const go = async () => {
    setBusy(true);
    setError(null);
    let all = 0;
    let before: string | null = null;
    try {
      do {
        const batch: Batch = await send({ limit: BATCH, ...(before ? { before } : {}) });
        all += batch.done;
        before = batch.next;
        setDone(all);
      } while (before && !stopped.current);
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
    then();
  };
  const close = () => {
    stopped.current = true;
    onClose();
  };
  return (
    <Dialog title={title} onClose={close}>
      <Found query={count}>
        {(found) => (
          <>
            <p>
              {question} <strong>{plural(found.left, noun)}</strong>.
            </p>
            {done !== null && <p role="status">{`${plural(done, noun)} ${past}${busy ? " so far" : ""}.`}</p>}
            {error ? <Trouble error={error} /> : null}
            <div className="actions">
              {done !== null && !busy ? (
                <button type="button" onClick={close}>
                  Close
                </button>
              ) : (
                <button type="button" className={danger ? "danger" : "primary"} disabled={busy || found.left === 0} onClick={() => void go()}>
                  {verb} {plural(found.left, noun)}
                </button>
              )}
            </div>
          </>
        )}
      </Found>
    </Dialog>
  );
}
