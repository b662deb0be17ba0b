/**
 * The definition as text, YAML or JSON. The server checks it while you type: all errors by field, the difference from
 * the live version, and the resulting graph. Deploying creates a new version.
 */
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation } from "wouter";
import { api, data, type Schemas } from "../../api/client";
import { GraphView } from "../../graph/GraphView";
import { Command } from "../../parts/Copy";
import { Diff } from "../../parts/Diff";
import { Editor, parseJson, type Mistake } from "../../parts/Editor";
import { Found, Trouble } from "../../parts/Feedback";

type Language = "yaml" | "json";
type Parsed = { value: unknown; mistake: Mistake | null };

const PAUSE = 400;
const FIRST = `name: my-workflow
description: What this workflow does.
tasks:
  fetch:
    url: https://example.com/data
    method: GET
  notify:
    needs: [fetch]
    job: my.handler.v1
    input: { text: "{{tasks.fetch.status_code}}" }
`;

export function Edit({ workflow }: { workflow: Schemas["WorkflowDetail"] | null }) {
  const live = useQuery({
    queryKey: ["workflows", "definition", workflow?.name, workflow?.version],
    enabled: workflow !== null,
    staleTime: Infinity,
    queryFn: async () => {
      const path = { ref: workflow!.name, number: workflow!.version };
      const found = await data(api.GET("/api/v1/workflows/{ref}/versions/{number}", { params: { path } }));
      return dump(legible(found.definition), "yaml");
    },
  });
  if (workflow === null) return <Form name={null} first={FIRST} />;
  return <Found query={live}>{(text) => <Form name={workflow.name} first={text} />}</Found>;
}

function Form({ name, first }: { name: string | null; first: string }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [language, setLanguage] = useState<Language>("yaml");
  const [text, setText] = useState(first);
  const [parsed, setParsed] = useState<Parsed>({ value: undefined, mistake: null });
  useEffect(() => {
    const timer = setTimeout(() => void parse(text, language).then(setParsed), PAUSE);
    return () => clearTimeout(timer);
  }, [text, language]);
  const preview = useQuery({
    queryKey: ["preview", parsed.value],
    enabled: parsed.mistake === null && parsed.value !== undefined,
    retry: false,
    placeholderData: keepPreviousData,
    queryFn: () => data(api.POST("/api/v1/workflows/preview", { body: parsed.value as never })),
  });
  const deploy = useMutation({
    mutationFn: async () => {
      const { value, mistake } = await parse(text, language);
      if (mistake) throw new Error(mistake.message);
      return data(api.POST("/api/v1/workflows", { body: value as never }));
    },
    onSuccess: (made) => {
      void client.invalidateQueries({ queryKey: ["workflows"] });
      if (!made.webhook_url) go(`/workflows/${made.name}/${made.version > 1 ? "versions" : ""}`.replace(/\/$/, ""));
    },
  });
  const turn = async (to: Language) => {
    const { value, mistake } = await parse(text, language);
    if (mistake === null) setText(await dump(value, to));
    setLanguage(to);
  };
  const renamed = preview.data && name !== null && preview.data.name !== name;
  const unfit = parsed.mistake !== null || preview.error !== null || parsed.value === undefined;
  return (
    <div className="two">
      <section>
        <div className="actions editor-head">
          <div className="chips" role="group" aria-label="Language">
            {(["yaml", "json"] as const).map((each) => (
              <button key={each} type="button" className="chip" aria-pressed={language === each} onClick={() => void turn(each)}>
                {each.toUpperCase()}
              </button>
            ))}
          </div>
          <button type="button" disabled={text === first && language === "yaml"} onClick={() => (setLanguage("yaml"), setText(first))}>
            Reset
          </button>
          <button type="button" className="primary" disabled={unfit || deploy.isPending || preview.data?.change === "unchanged"} onClick={() => deploy.mutate()}>
            {preview.data?.change === "unchanged" && !unfit ? "No changes to deploy" : preview.data ? `Deploy version ${preview.data.version}` : "Deploy"}
          </button>
        </div>
        <Editor label="Definition" value={text} onChange={setText} mistake={parsed.mistake ?? placed(preview.error, text)} rows={26} />
        {deploy.error && <Trouble error={deploy.error} />}
        {deploy.data?.webhook_url && (
          <div className="explanation">
            <p>Deployed. This is its webhook URL, which is shown only once:</p>
            <Command text={deploy.data.webhook_url} />
          </div>
        )}
      </section>
      <section aria-live="polite">
        {preview.error && !parsed.mistake ? (
          <Trouble error={preview.error} />
        ) : preview.data ? (
          <>
            {renamed && <p className="reason">The name differs, so this creates a new workflow: {preview.data.name}.</p>}
            {preview.data.warnings.map((each) => (
              <p key={each} className="reason">
                {each}
              </p>
            ))}
            <h2>{preview.data.change === "new" ? "New workflow" : preview.data.change === "changed" ? "Changes" : "Same as the live version"}</h2>
            {preview.data.change === "changed" && <Diff lines={preview.data.lines} />}
            <GraphView key={JSON.stringify(preview.data.graph.edges)} graph={preview.data.graph} small />
          </>
        ) : null}
      </section>
    </div>
  );
}

const ORDER = ["name", "description", "trigger", "labels", "max_duration", "needs", "join", "if", "final", "foreach", "parallel", "concurrency"];
const LAST = ["input", "headers", "query", "body", "retry", "max_attempts", "timeout", "tasks"];

/** Rewrite the list of tasks as a mapping by name, with keys in the usual order. */
function legible(definition: Record<string, unknown>): unknown {
  const { tasks, ...rest } = definition;
  if (!Array.isArray(tasks)) return definition;
  return { ...ordered(rest), tasks: Object.fromEntries(tasks.map(({ name, ...task }) => [name, ordered(task)])) };
}

function ordered(part: Record<string, unknown>): Record<string, unknown> {
  const rank = (key: string) => (ORDER.includes(key) ? ORDER.indexOf(key) : LAST.includes(key) ? 200 + LAST.indexOf(key) : 100);
  return Object.fromEntries(Object.entries(part).sort(([one], [other]) => rank(one) - rank(other)));
}

async function dump(value: unknown, language: Language): Promise<string> {
  if (language === "json") return `${JSON.stringify(value, null, 2)}\n`;
  const yaml = await import("js-yaml");
  return yaml.dump(value, { lineWidth: 110, noRefs: true });
}

async function parse(text: string, language: Language): Promise<Parsed> {
  if (language === "json") return parseJson(text);
  const yaml = await import("js-yaml");
  try {
    return { value: yaml.load(text), mistake: null };
  } catch (error) {
    const { reason, message, mark } = error as { reason?: string; message: string; mark?: { line: number } };
    return { value: undefined, mistake: { message: reason ?? message, line: mark === undefined ? undefined : mark.line + 1 } };
  }
}

/** Locate the first error: the line of the last part of its path that can be found in order. */
function placed(error: unknown, text: string): Mistake | null {
  const first = (error as { errors?: { field: string; message: string }[] } | null)?.errors?.[0];
  if (!first) return error ? { message: (error as Error).message } : null;
  const lines = text.split("\n");
  let at = -1;
  for (const name of first.field.split(".")) {
    const found = lines.findIndex((line, n) => n > at && new RegExp(`(^|[\\s{,"'])${name.replace(/[^\w-]/g, ".")}["']?\\s*:`).test(line));
    if (found < 0) break;
    at = found;
  }
  return { message: `${first.field}: ${first.message}`, line: at < 0 ? undefined : at + 1 };
}
