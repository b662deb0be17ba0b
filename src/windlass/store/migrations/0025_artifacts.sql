-- May run before the new code: yes (a table that older code does not use).
-- Artifacts of attempts. The content is in the object store. A row is written before its object, so that every object can be found
-- and deleted.
create table windlass.artifact (
  job_id     uuid not null,
  fence      int not null,                      -- the claim that wrote it
  name       text not null,
  org        text not null,
  run_id     uuid not null,                     -- the job, if it is not a step of a run
  step       text not null,                     -- the name of the step
  index      int not null,                      -- of the instance of a fanned-out step
  attempt    int not null,
  key        text not null,                     -- in the object store
  media_type text not null,
  size       bigint,                            -- null: it is being written
  created_at timestamptz not null default windlass.now(),
  remove_at  timestamptz,                       -- set when the job was deleted: when to delete the object
  primary key (job_id, fence, name)
);
create index artifact_run on windlass.artifact (run_id, step, index, name, fence);
create index artifact_remove on windlass.artifact (remove_at) where remove_at is not null;

alter table windlass.artifact enable row level security;
create policy of_org on windlass.artifact
  using ((select windlass.acting_org()) is null or org = (select windlass.acting_org()))
  with check ((select windlass.acting_org()) is null or org = (select windlass.acting_org()));
