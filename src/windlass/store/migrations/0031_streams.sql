-- May run before the new code: yes (a table that older code does not use).
-- Streams of handlers: what they passed to `ctx.stream`, in order. Each claim of the job writes a section of its own.
create table windlass.stream_chunk (
  job_id  uuid not null,
  section int not null,                         -- the claim that wrote it
  number  int not null,                         -- in its section, from 1
  attempt int not null,
  data    jsonb not null,
  at      timestamptz not null,
  primary key (job_id, section, number)
);

alter table windlass.stream_chunk enable row level security;
create policy of_job on windlass.stream_chunk
  using ((select windlass.acting_org()) is null
         or (select j.org from workflow.workflow_run j where j.id = job_id) = (select windlass.acting_org()))
  with check ((select windlass.acting_org()) is null
              or coalesce(windlass.job_org(job_id), (select windlass.acting_org())) = (select windlass.acting_org()));
