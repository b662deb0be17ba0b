/** Asks for confirmation, runs the action and shows its error. */
import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Dialog } from "./Dialog";
import { Trouble } from "./Feedback";

interface Props {
  title: string;
  verb: string; // on the confirm button
  keep?: string; // on the cancel button
  danger?: boolean;
  act: () => Promise<unknown>;
  onDone: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function Confirm({ title, verb, keep = "Close", danger = false, act, onDone, onClose, children }: Props) {
  const doing = useMutation({
    mutationFn: act,
    onSuccess: () => {
      onDone();
      onClose();
    },
  });
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          doing.mutate();
        }}
      >
        {children}
        {doing.error && <Trouble error={doing.error} />}
        <div className="actions">
          <button type="button" onClick={onClose}>
            {keep}
          </button>
          <button type="submit" className={danger ? "danger" : "primary"} disabled={doing.isPending}>
            {verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
