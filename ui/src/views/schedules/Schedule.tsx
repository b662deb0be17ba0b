/** The page of one schedule. */
import { Link } from "wouter";
import { useLive } from "../../api/live";
import { ScheduleDetail } from "./ScheduleDetail";

export default function ScheduleView({ params }: { params: Record<string, string | undefined> }) {
  const name = params["name"] ?? "";
  useLive(`/api/v1/stream?kind=run&workflow=${encodeURIComponent(name)}`, [["schedules"]], undefined, 1000);
  return (
    <section className="view">
      <div className="view-head">
        <h1>
          <Link href="/schedules">Schedules</Link> / <Link href={`/workflows/${name}`}>{name}</Link>
        </h1>
      </div>
      <ScheduleDetail name={name} />
    </section>
  );
}
