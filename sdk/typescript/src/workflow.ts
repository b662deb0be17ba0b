/**
 * A builder for workflows. It produces the same document as a workflow file; the server validates it.
 *
 *     const orders = workflow("orders", { input: { type: "object" } })
 *       .step("pick", job("orders.pick.v1", { order: ref.input("order") }))
 *       .step("pack", job("orders.pack.v1", { items: ref.output("pick", "items") }), { timeout: "5m" });
 *     await client.workflows.deploy(orders);
 *
 * A step that reads the output of another step runs after that step has succeeded; `needs` lists all other edges.
 */

import { WindlassError } from "./errors.js";
import type { Condition, WorkflowDefinition, WorkflowStep } from "./generated/operations.js";

const KEY = /^[\w$@-]+$/;
const MENTION = /\{\{\s*tasks\.([A-Za-z0-9_-]+)/g;
const TEMPLATE = /\{\{\s*([^\s{}]+)\s*\}\}/g;

/** A path to a value that exists only in a run. As a string and in JSON it becomes a template: `{{input.order}}`. */
export class Reference {
  /** The path as written in templates: `tasks.pick.output.items`. */
  readonly path: string;
  /** The path as written in `foreach` and `parallel`: `pick.items`. Undefined if they cannot use it. */
  readonly source: string | undefined;

  constructor(path: string, source?: string) {
    this.path = path;
    this.source = source;
  }

  /** Return a reference to a part of the value. */
  at(...keys: (string | number)[]): Reference {
    const rest = keys.map((key) => `.${keyOf(key)}`).join("");
    return new Reference(this.path + rest, this.source === undefined ? undefined : this.source + rest);
  }

  toString(): string {
    return `{{${this.path}}}`;
  }

  toJSON(): string {
    return this.toString();
  }
}

/** References to values of the run. Further arguments select a part of the value: `ref.output("pick", "items", 0)`. */
export const ref = {
  /** The input of the run. */
  input: (...keys: (string | number)[]): Reference => new Reference("input", "input").at(...keys),
  /** The output of a step: the result of a job, or the body of a response or a callback. */
  output: (step: string, ...keys: (string | number)[]): Reference =>
    new Reference(`tasks.${step}.output`, step).at(...keys),
  /** The status of a step: success, failed, timeout, skipped or received. */
  status: (step: string): Reference => new Reference(`tasks.${step}.status`),
  /** The status code of an HTTP step. */
  statusCode: (step: string): Reference => new Reference(`tasks.${step}.status_code`),
  /** The error of a step, for steps that run after its failure. */
  error: (step: string): Reference => new Reference(`tasks.${step}.error`),
  /** The callback URL of a `waitForWebhook` step, known from the start of the run. */
  callbackUrl: (step: string): Reference => new Reference(`wait.${step}.url`),
  /** The item of an instance, in a step with `foreach`. */
  item: (...keys: (string | number)[]): Reference => new Reference("item").at(...keys),
  /** The index of an instance, from 0, in a fanned-out step. */
  index: (): Reference => new Reference("index"),
} as const;

/** The action of a step, as returned by `job`, `http`, `sleep`, `waitForEvent`, `approve`, `child` and so on. */
export type Action = Readonly<Record<string, unknown>>;

type Text = string | Reference;
type Part<K extends keyof WorkflowStep> = Exclude<NonNullable<WorkflowStep[K]>, string | boolean>;
type With<T> = { [K in keyof T]: T[K] | Reference };

/** Define a step that runs a job of this type, on any worker that handles it. */
export function job(type: string, input?: unknown): Action {
  return present({ job: type, input });
}

/** Define a step that sends an HTTP request. The default method is POST. */
export function http(
  url: Text,
  options: { method?: NonNullable<WorkflowStep["method"]>; headers?: object; query?: object; body?: unknown } = {},
): Action {
  return present({ method: "POST", ...options, url });
}

/** Define a step that waits for a duration: `"30s"`, `"1d"`, or a number of seconds. */
export function sleep(duration: string | number): Action {
  return { sleep: duration };
}

/** Define a step that waits for a callback to its URL, which is `ref.callbackUrl(name)`. */
export function waitForWebhook(options: { timeout?: string | number; secret?: string } = {}): Action {
  return { wait_for_webhook: Object.keys(options).length > 0 ? options : true };
}

/** Define a step that waits for an event with a key, or, without a key, for a signal to the run. */
export function waitForEvent(name: string, options: With<Omit<Part<"wait_for_event">, "name">> = {}): Action {
  return { wait_for_event: { name, ...options } };
}

/** Define a step that waits until a person approves or rejects. `form` is a JSON Schema of the values to fill in. */
export function approve(message: Text, options: Omit<Part<"approve">, "message"> = {}): Action {
  return { approve: { message, ...options } };
}

/** Define a step that runs a command, on a pool if `runs_on` names one. */
export function command(run: string, options: { runs_on?: string; input?: unknown } = {}): Action {
  return present({ run, ...options });
}

/** Define a step that starts a run of another workflow. */
export function child(workflow: string | WorkflowBuilder<string>, input?: unknown): Action {
  return present({ workflow: typeof workflow === "string" ? workflow : workflow.name, input });
}

type StepFields = Pick<
  WorkflowStep,
  | "allow_failure"
  | "concurrency"
  | "env"
  | "final"
  | "image"
  | "join"
  | "max_attempts"
  | "priority"
  | "queue"
  | "resources"
  | "retry"
  | "runs_on"
  | "timeout"
>;

/** The options of a step, with the same names as in workflow files. */
export interface StepOptions<Steps extends string = string> extends StepFields {
  /** The steps to run after, with the required outcome: success by default, any outcome if the step has an `if`. */
  needs?: Steps | readonly Steps[] | { readonly [Step in Steps]?: Condition };
  /** An expression that must be true for the step to run, evaluated once all parents have ended. */
  if?: Text;
  /** Run one instance for each item of a list. */
  foreach?: Reference;
  /** Run this number of instances. */
  parallel?: number | Reference;
  /** The action that undoes the step if the run fails, times out or is cancelled with compensation. */
  compensate?: Action | boolean;
}

/** The options of a workflow, with the same names as in workflow files. */
export type WorkflowOptions = Omit<WorkflowDefinition, "name" | "tasks" | "$schema">;

type Task = Record<string, unknown> & { name: string };

/** A workflow under construction. `Steps` are the names of its steps so far. */
export class WorkflowBuilder<Steps extends string = never> {
  readonly name: string;
  readonly #options: WorkflowOptions;
  readonly #tasks: readonly Task[];

  constructor(name: string, options: WorkflowOptions = {}, tasks: readonly Task[] = []) {
    this.name = name;
    this.#options = options;
    this.#tasks = tasks;
  }

  /** Return a copy of the workflow with one more step. */
  step<Name extends string>(
    name: Name extends Steps ? never : Name,
    action: Action,
    options: StepOptions<Steps> = {},
  ): WorkflowBuilder<Steps | Name> {
    if (this.#tasks.some((task) => task.name === name)) throw new WindlassError(`duplicate step ${name}`);
    const names = new Set(this.#tasks.map((task) => task.name));
    return new WorkflowBuilder<Steps | Name>(this.name, this.#options, [
      ...this.#tasks,
      taskOf(name, action, options, names),
    ]);
  }

  /** Return the definition, in the form of `client.workflows.deploy` and of workflow files. */
  toJSON(): WorkflowDefinition {
    const document = { ...this.#options, name: this.name, tasks: this.#tasks };
    return JSON.parse(JSON.stringify(document)) as WorkflowDefinition; // with templates instead of references
  }
}

/** Return a builder for a workflow. The workflow is triggered by the API unless the options have a `trigger`. */
export function workflow(name: string, options: WorkflowOptions = {}): WorkflowBuilder {
  return new WorkflowBuilder(name, options);
}

function taskOf(name: string, action: Action, options: StepOptions, known: ReadonlySet<string>): Task {
  const { needs = [], if: condition, foreach, parallel, compensate, ...fields } = options;
  const explicit = edgesOf(needs);
  const sources = [foreach, parallel].filter((one) => one instanceof Reference);
  const isImplied = (parent: string): boolean => known.has(parent) && !explicit.some((edge) => edge.step === parent);
  const reads = [...new Set(mentions(JSON.stringify([action, sources])))].filter(isImplied);
  const implied = options.final ? [] : reads;
  if (options.join !== undefined && implied[0] !== undefined && explicit.length + implied.length > 1) {
    const early = `step ${name} may start before ${implied[0]} has ended, whose output it reads`;
    throw new WindlassError(`${early}: add ${implied[0]} to needs if that is intended`);
  }
  const edges = [
    ...explicit.map((edge) => (edge.on === undefined ? edge.step : edge)),
    ...implied.map((step) => ({ step, on: "success" })),
  ];
  return {
    name,
    ...action,
    ...present({
      ...fields,
      if: condition === undefined ? undefined : String(condition).replace(TEMPLATE, "$1"),
      foreach: foreach && sourceOf(name, "foreach", foreach),
      parallel: parallel instanceof Reference ? sourceOf(name, "parallel", parallel) : parallel,
      compensate,
      needs: edges.length > 0 ? edges : undefined,
    }),
  };
}

function edgesOf(needs: NonNullable<StepOptions["needs"]>): { step: string; on?: string }[] {
  if (typeof needs === "string") return [{ step: needs }];
  if (Array.isArray(needs)) return (needs as readonly string[]).map((step) => ({ step }));
  return Object.entries(needs).map(([step, on]) => ({ step, on: on as string }));
}

function sourceOf(step: string, option: string, reference: Reference): string {
  if (reference.source !== undefined) return reference.source;
  throw new WindlassError(`${option} of step ${step} is ${reference}: it must be the output of a step or the input`);
}

/** Return the steps that the templates in a string refer to. */
function mentions(text: string): string[] {
  return [...text.matchAll(MENTION)].map((match) => match[1] ?? "");
}

function keyOf(key: string | number): string {
  if (typeof key === "number" ? Number.isInteger(key) && key >= 0 : KEY.test(key)) return String(key);
  const rule = "a number from 0, or a key of letters, digits, _, -, $ and @; other keys can be written as a template";
  throw new WindlassError(`${JSON.stringify(key)} cannot be used in a path: it must be ${rule}`);
}

function present(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
