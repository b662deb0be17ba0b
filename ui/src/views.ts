/** The views, in the order of the menu. A view is a folder in views/ and a line here; each is loaded when first opened. */
import { lazy, type ComponentType, type LazyExoticComponent } from "react";
import { Badge } from "./views/approvals/Badge";

export interface View {
  path: string; // a pattern of wouter; its parameters are the props `params` of the component
  title: string;
  letter?: string; // `g` and this letter open the view; a view without a letter is not in the menu
  Badge?: ComponentType; // beside its title in the menu
  Component: LazyExoticComponent<ComponentType<{ params: Record<string, string | undefined> }>>;
}

const overview = () => import("./views/overview/Overview");
const workflows = () => import("./views/workflows/Workflows");
const runs = () => import("./views/runs/Runs");
const approvals = () => import("./views/approvals/Approvals");
const schedules = () => import("./views/schedules/Schedules");
const jobs = () => import("./views/jobs/Jobs");
const queues = () => import("./views/queues/Queues");
const workers = () => import("./views/workers/Workers");
const pools = () => import("./views/pools/Pools");
const deadLetters = () => import("./views/dead-letters/DeadLetters");
const quarantine = () => import("./views/quarantine/Quarantine");
const organisation = () => import("./views/organisation/Organisation");
const workflow = () => import("./views/workflow/Workflow");
const run = () => import("./views/run/Run");
const schedule = () => import("./views/schedules/Schedule");
const job = () => import("./views/job/Job");
const newJob = () => import("./views/jobs/NewJob");
const worker = () => import("./views/workers/Worker");
const LOADS = [overview, workflows, runs, approvals, schedules, jobs, queues, workers, pools, deadLetters, quarantine, organisation, workflow, run, schedule, job, newJob, worker];

export const VIEWS: View[] = [
  { path: "/", title: "Overview", letter: "o", Component: lazy(overview) },
  { path: "/workflows", title: "Workflows", letter: "w", Component: lazy(workflows) },
  { path: "/runs", title: "Runs", letter: "r", Component: lazy(runs) },
  { path: "/approvals", title: "Approvals", letter: "v", Badge, Component: lazy(approvals) },
  { path: "/schedules", title: "Schedules", letter: "s", Component: lazy(schedules) },
  { path: "/jobs", title: "Jobs", letter: "j", Component: lazy(jobs) },
  { path: "/queues", title: "Queues", letter: "q", Component: lazy(queues) },
  { path: "/workers", title: "Workers", letter: "k", Component: lazy(workers) },
  { path: "/pools", title: "Pools", letter: "p", Component: lazy(pools) },
  { path: "/dead-letters", title: "Dead letters", letter: "d", Component: lazy(deadLetters) },
  { path: "/quarantine", title: "Quarantine", letter: "a", Component: lazy(quarantine) },
  { path: "/organisation", title: "Organisation", letter: "n", Component: lazy(organisation) },
  { path: "/workflows/:name/:tab?", title: "Workflow", Component: lazy(workflow) },
  { path: "/runs/:id/:tab?", title: "Run", Component: lazy(run) },
  { path: "/schedules/:name", title: "Schedule", Component: lazy(schedule) },
  { path: "/jobs/new", title: "New job", Component: lazy(newJob) },
  { path: "/jobs/:id", title: "Job", Component: lazy(job) },
  { path: "/organisation/:tab", title: "Organisation", Component: lazy(organisation) },
  { path: "/workers/:id", title: "Worker", Component: lazy(worker) },
];

/** Preload the other views when idle, so that they open even if the server becomes unreachable. */
export function fetchViews(): void {
  const later = window.requestIdleCallback ?? ((call: () => void) => setTimeout(call, 1000));
  later(() => void Promise.allSettled(LOADS.map((load) => load())));
}

export const MENU = VIEWS.filter((view) => view.letter !== undefined);
