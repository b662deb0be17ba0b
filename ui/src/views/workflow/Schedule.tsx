/** What the clock does for a workflow. */
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { Empty } from "../../parts/Feedback";
import { ScheduleDetail } from "../schedules/ScheduleDetail";

export function Schedule({ workflow }: { workflow: Schemas["WorkflowDetail"] }) {
  if (!workflow.schedule)
    return (
      <Empty title="The clock does not start it" commands={["trigger: { cron: \"0 6 * * *\", timezone: Europe/Berlin }"]}>
        A line in its definition makes it run by the clock; add it under <Link href={`/workflows/${workflow.name}/edit`}>Edit</Link>:
      </Empty>
    );
  return <ScheduleDetail name={workflow.name} />;
}
