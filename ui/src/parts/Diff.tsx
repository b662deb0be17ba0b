/** The differences between two definitions: `@@ where @@`, then lines that begin with a blank, - or +. */
const KINDS: Record<string, string> = { "+": "added", "-": "removed", "@": "where" };

export function Diff({ lines }: { lines: string[] }) {
  if (lines.length === 0) return <p className="dim">No differences.</p>;
  return (
    <pre className="diff" tabIndex={0} aria-label="Differences">
      {lines.map((line, n) => (
        <div key={n} className={KINDS[line[0] ?? ""] ?? ""}>
          {line || " "}
        </div>
      ))}
    </pre>
  );
}
