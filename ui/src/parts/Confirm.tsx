/** Asks for confirmation, runs the action and shows its error: at the fields of the form that it names, or below them. */
import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Dialog } from "./Dialog";
import { Trouble } from "./Feedback";
import { Mistakes, unplaced } from "./Field";

interface Props {
  title: string;
  verb: string; // on the confirm button
  keep?: string; // on the cancel button
  danger?: boolean;
  disabled?: boolean; // whether the form is incomplete
  fields?: string[]; // the names that its <Field>s have in the API
  act: () => Promise<unknown>;
  onDone: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function Confirm({ title, verb, keep = "Close", danger = false, disabled = false, fields = [], act, onDone, onClose, children }: Props) {
  const doing = useMutation({
    mutationFn: act,
    gcTime: 0, // the response may contain a new key
    onSuccess: () => {
      onDone();
      onClose();
    },
  });
  const rest = unplaced(doing.error, fields);
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          doing.mutate();
        }}
      >
        <Mistakes value={doing.error}>{children}</Mistakes>
        {rest !== null && <Trouble error={rest} />}
        <div className="actions">
          <button type="button" onClick={onClose}>
            {keep}
          </button>
          <button type="submit" className={danger ? "danger" : "primary"} disabled={disabled || doing.isPending}>
            {verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
