/** The message that a task waits for, and a form that sends it. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type AwaitedMessage, type RunDetail } from "../../api/client";
import { Allowed } from "../../parts/Allowed";
import { Dialog } from "../../parts/Dialog";
import { Editor, parseJson } from "../../parts/Editor";
import { Trouble } from "../../parts/Feedback";

export function Awaited({ run, message }: { run: RunDetail; message: AwaitedMessage }) {
  const [open, setOpen] = useState(false);
  const isSignal = message.key === null;
  return (
    <section>
      <h3>Waiting for</h3>
      <p>
        {isSignal ? "signal" : "event"} <code>{message.name}</code>
        {message.key && (
          <>
            , key <code>{message.key}</code>
          </>
        )}
        {message.count > 1 && ` (${message.received} of ${message.count} received)`}
      </p>
      <Allowed scope="start">
        <button type="button" onClick={() => setOpen(true)}>
          {isSignal ? "Send the signal…" : "Publish the event…"}
        </button>
      </Allowed>
      {open && <Send run={run} message={message} onClose={() => setOpen(false)} />}
    </section>
  );
}

function Send({ run, message, onClose }: { run: RunDetail; message: AwaitedMessage; onClose: () => void }) {
  const client = useQueryClient();
  const [text, setText] = useState("null");
  const { value, mistake } = parseJson(text);
  const payload = value as Record<string, never>;
  const send = useMutation({
    mutationFn: () =>
      message.key === null
        ? data(api.POST("/api/v1/runs/{run_id}/signals/{signal}", { params: { path: { run_id: run.id, signal: message.name } }, body: { payload } }))
        : data(api.POST("/api/v1/events", { body: { name: message.name, key: message.key, payload } })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["run", run.id] });
      onClose();
    },
  });
  return (
    <Dialog title={message.key === null ? `Send signal ${message.name}` : `Publish event ${message.name}`} onClose={onClose} wide>
      <p>{message.key === null ? "This run receives it." : "Every run and job that waits for this name and key receives it, and it starts runs of the workflows that it triggers."}</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send.mutate();
        }}
      >
        <Editor label="Payload" value={text} onChange={setText} mistake={mistake} />
        {send.error && <Trouble error={send.error} />}
        <div className="actions">
          <button type="button" onClick={onClose}>
            Close
          </button>
          <button type="submit" className="primary" disabled={send.isPending || mistake !== null}>
            Send
          </button>
        </div>
      </form>
    </Dialog>
  );
}
