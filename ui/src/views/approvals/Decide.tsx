/** The buttons that approve and reject, and the dialog with the fields of the form. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../../api/client";
import { Confirm } from "../../parts/Confirm";
import { Field } from "../../parts/Field";
import { fieldsOf, valuesOf, type FormField } from "./form";
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
  const fields = decision === "approve" ? fieldsOf(approval.form) : [];
  const [typed, setTyped] = useState<Record<string, string>>({});
  const [comment, setComment] = useState("");
  const act = () => {
    const values = fields.length > 0 ? { values: valuesOf(fields, typed) as Record<string, never> } : {};
    const request = { params: { path: { approval_id: approval.id } }, body: { ...values, ...(comment.trim() ? { comment: comment.trim() } : {}) } };
    return decision === "approve" ? data(api.POST("/api/v1/approvals/{approval_id}/approve", request)) : data(api.POST("/api/v1/approvals/{approval_id}/reject", request));
  };
  const onDone = () => {
    void client.invalidateQueries({ queryKey: KEY });
    void client.invalidateQueries({ queryKey: ["run", approval.run_id] });
  };
  return (
    <Confirm
      title={`${VERBS[decision]} ${approval.task}`}
      verb={VERBS[decision]}
      danger={decision === "reject"}
      fields={[...fields.map((field) => `values.${field.name}`), "comment"]}
      act={act}
      onDone={onDone}
      onClose={onClose}
    >
      <p className="approval-message">{approval.message}</p>
      {fields.map((field) => (
        <FormInput key={field.name} field={field} value={typed[field.name] ?? field.initial} change={(value) => setTyped({ ...typed, [field.name]: value })} />
      ))}
      <Field name="comment" label="Comment">
        {(input) => <textarea {...input} rows={3} value={comment} onChange={(event) => setComment(event.target.value)} />}
      </Field>
    </Confirm>
  );
}

function FormInput({ field, value, change }: { field: FormField; value: string; change: (value: string) => void }) {
  return (
    <Field name={`values.${field.name}`} label={field.required ? `${field.label} (required)` : field.label} hint={field.hint}>
      {(input) => {
        switch (field.kind) {
          case "boolean":
            return <input {...input} type="checkbox" checked={value === "true"} onChange={(event) => change(String(event.target.checked))} />;
          case "number":
            return <input {...input} type="number" step="any" value={value} onChange={(event) => change(event.target.value)} />;
          case "choice":
            return (
              <select {...input} value={value} onChange={(event) => change(event.target.value)}>
                <option value="">–</option>
                {field.choices.map((choice) => (
                  <option key={JSON.stringify(choice)} value={JSON.stringify(choice)}>
                    {typeof choice === "string" ? choice : JSON.stringify(choice)}
                  </option>
                ))}
              </select>
            );
          case "json":
            return <textarea {...input} rows={3} value={value} placeholder="JSON" onChange={(event) => change(event.target.value)} />;
          case "text":
            return <input {...input} type="text" value={value} onChange={(event) => change(event.target.value)} />;
        }
      }}
    </Field>
  );
}
