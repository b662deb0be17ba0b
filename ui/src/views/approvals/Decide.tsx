/** The buttons that approve and reject, and the dialog with the fields of the form. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../../api/client";
import { Confirm } from "../../parts/Confirm";
import { Field } from "../../parts/Field";
import { placed, placesOf, problemOf } from "../../parts/schema/check";
import { initialValue, type Schema } from "../../parts/schema/schema";
import { SchemaFields } from "../../parts/schema/SchemaForm";
import { KEY, type Approval } from "./queries";

type Decision = "approve" | "reject";
const VERBS: Record<Decision, string> = { approve: "Approve", reject: "Reject" };

export function Decide({ approval }: { approval: Approval }) {
  const [decision, setDecision] = useState<Decision | null>(null);
  if (!approval.may_decide) return null;
  return (
    <div className="actions">
      {(["approve", "reject"] as const).map((each) => (
        <button key={each} type="button" onClick={() => setDecision(each)} aria-label={`${VERBS[each]} ${approval.task} of ${approval.workflow}`}>
          {VERBS[each]}…
        </button>
      ))}
      {decision && <DecisionDialog approval={approval} decision={decision} onClose={() => setDecision(null)} />}
    </div>
  );
}

function DecisionDialog({ approval, decision, onClose }: { approval: Approval; decision: Decision; onClose: () => void }) {
  const client = useQueryClient();
  const form: Schema | null = decision === "approve" && approval.form ? { type: "object", ...approval.form } : null;
  const [values, setValues] = useState<unknown>(() => form && (initialValue(form, form) ?? {}));
  const [comment, setComment] = useState("");
  const places = form ? placesOf(form, form, values, "values").slice(1) : []; // the object itself has no field
  const act = async () => {
    const problem = form && problemOf(form, values, "values");
    if (problem) throw placed(problem, places);
    const body = { ...(form ? { values: values as Record<string, never> } : {}), ...(comment.trim() ? { comment: comment.trim() } : {}) };
    const request = { params: { path: { approval_id: approval.id } }, body };
    const answer = decision === "approve" ? api.POST("/api/v1/approvals/{approval_id}/approve", request) : api.POST("/api/v1/approvals/{approval_id}/reject", request);
    return data(answer).catch((error: unknown) => Promise.reject(placed(error, places) as Error));
  };
  const onDone = () => {
    void client.invalidateQueries({ queryKey: KEY });
    void client.invalidateQueries({ queryKey: ["run", approval.run_id] });
  };
  return (
    <Confirm title={`${VERBS[decision]} ${approval.task}`} verb={VERBS[decision]} danger={decision === "reject"} fields={[...places, "comment"]} act={act} onDone={onDone} onClose={onClose}>
      <p className="approval-message">{approval.message}</p>
      {form && <SchemaFields schema={form} name="values" label="Values" value={values} change={setValues} />}
      <Field name="comment" label="Comment">
        {(input) => <textarea {...input} rows={3} value={comment} onChange={(event) => setComment(event.target.value)} />}
      </Field>
    </Confirm>
  );
}
