/** The live stream of a job: strings as they are, other chunks as lines of JSON, in a section for each attempt. */
import { useEffect, useState } from "react";
import { follow } from "../../api/live";

interface Chunk {
  section: number;
  attempt: number;
  data: unknown;
}

export interface Section {
  section: number;
  attempt: number;
  text: string;
}

const LONGEST = 200_000; // characters of a section that are shown

export function Stream({ id }: { id: string }) {
  const [sections, setSections] = useState<Section[]>([]);
  useEffect(() => {
    setSections([]);
    const stop = new AbortController();
    const onMessage = ({ event, data }: { event: string; data: string }) => {
      if (event === "chunk") setSections((old) => append(old, JSON.parse(data) as Chunk));
    };
    void follow(`/api/v1/jobs/${id}/stream`, stop.signal, { onMessage, opened: () => {}, absent: () => {} });
    return () => stop.abort();
  }, [id]);
  if (sections.length === 0) return null;
  return (
    <section aria-label="Stream">
      <h3>Stream</h3>
      {sections.map(({ section, attempt, text }) => (
        <div key={section}>
          {sections.length > 1 && <h4>Attempt {attempt}</h4>}
          <pre className="stream" tabIndex={0} aria-live="polite">
            {text}
          </pre>
        </div>
      ))}
    </section>
  );
}

export function append(sections: Section[], chunk: Chunk): Section[] {
  const { section, attempt } = chunk;
  const last = sections.at(-1);
  const added = typeof chunk.data === "string" ? chunk.data : `${JSON.stringify(chunk.data)}\n`;
  if (last?.section !== section) return [...sections, { section, attempt, text: added }];
  return [...sections.slice(0, -1), { ...last, text: (last.text + added).slice(-LONGEST) }];
}
