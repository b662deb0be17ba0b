/** Artifacts in components: names, sizes, attempts and the URLs of downloads. */
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import type { Schemas } from "../../api/client";
import { bytes } from "../../parts/words";
import { addressInJob, addressInRun, ArtifactTable } from "./Artifacts";

afterEach(cleanup);

const artifact = (more: Partial<Schemas["TaskArtifact"]>): Schemas["TaskArtifact"] => ({
  task: "make",
  index: 0,
  name: "report.csv",
  attempt: 2,
  size: 2048,
  media_type: "text/csv",
  created_at: "2030-01-01T12:00:00Z",
  is_result: true,
  reference: "artifact://r/make/0/report.csv",
  ...more,
});

const inRun = (row: Schemas["TaskArtifact"]) => addressInRun("r1", row);

describe("artifacts", () => {
  it("are links that download the file of their attempt", () => {
    render(<ArtifactTable address={inRun} fannedOut={false} rows={[artifact({ attempt: 1, is_result: false, created_at: "2030-01-01T11:00:00Z" }), artifact({})]} />);
    const links = screen.getAllByRole("link", { name: "report.csv" });
    expect(links.map((link) => link.getAttribute("href"))).toEqual([
      "/api/v1/runs/r1/tasks/make/artifacts/report.csv/content?index=0&attempt=1",
      "/api/v1/runs/r1/tasks/make/artifacts/report.csv/content?index=0&attempt=2",
    ]);
    expect(screen.getAllByText("not the result")).toHaveLength(1);
    expect(screen.getAllByText("2.0 KiB")).toHaveLength(2);
    expect(screen.queryByText("Instance")).toBeNull();
  });

  it("of a fanned-out task have the number of their instance", () => {
    render(<ArtifactTable address={inRun} fannedOut rows={[artifact({ index: 7 })]} />);
    expect(screen.getByText("#7")).toBeDefined();
  });

  it("of a job are downloaded from the job", () => {
    expect(addressInJob("j1", artifact({ name: "a b.csv", attempt: 3 }))).toBe("/api/v1/jobs/j1/artifacts/a%20b.csv/content?attempt=3");
  });

  it("have readable sizes", () => {
    expect([0, 1, 1023, 1024, 1536, 10 * 1024 ** 2, 5 * 1024 ** 3].map(bytes)).toEqual(["0 B", "1 B", "1023 B", "1.0 KiB", "1.5 KiB", "10 MiB", "5.0 GiB"]);
  });
});
