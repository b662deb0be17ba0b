/** The schedule of a workflow. */
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { Empty } from "../../parts/Feedback";
import { ScheduleDetail } from "../schedules/ScheduleDetail";

export function Schedule({ workflow }: { workflow: Schemas["WorkflowDetail"] }) {
  if (!workflow.schedule)
    return (
      <Empty title="No schedule" commands={["trigger: { cron: \"0 6 * * *\", timezone: Europe/Berlin }"]}>
        Add a cron trigger to its definition under <Link href={`/workflows/${workflow.name}/edit`}>Edit</Link> to run it on a schedule:
      </Empty>
    );
  return <ScheduleDetail name={workflow.name} />;
}
