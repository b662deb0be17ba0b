/** The actions of a schedule that was created with plain SQL and is managed there: statements to copy. */
import { Copy } from "../../parts/Copy";
import { Menu } from "../../parts/Menu";
import { quoted } from "../../parts/words";
import type { Schedule } from "./Schedules";

export function OfSql({ schedule }: { schedule: Schedule }) {
  const where = `where id = '${schedule.id}'`;
  return (
    <div className="actions row-actions">
      <span className="dim" title="Created with plain SQL; manage it there">
        managed in SQL
      </span>
      <Menu label="Copy">
        <Copy text={`update workflow.workflow_schedule set enabled = ${String(schedule.paused)} ${where};`}>SQL to {schedule.paused ? "resume" : "pause"} it</Copy>
        <Copy text={`update workflow.workflow_schedule set deleted_at = windlass.now() ${where};`}>SQL to delete it</Copy>
        <Copy text={`windlass submit ${quoted(schedule.name)} ${quoted(JSON.stringify(schedule.input))} --queue sql`}>Command to submit it now</Copy>
        <Copy text={schedule.id}>Id</Copy>
      </Menu>
    </div>
  );
}
