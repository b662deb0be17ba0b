-- May run before the new code: yes (a table and indexes that older code does not use, and later ends of live runs).
-- Open Job Spec workflows: no default time limit, a list of them, unique keys of waiting steps.

-- Their runs ended after the 30 days of a workflow without `max_duration`. Only `timeout_ms` gives them a time limit.
update windlass.run r set expires_at = r.created_at + interval '36525 days'
  from windlass.composition c
 where c.run_id = r.id and r.state in ('pending', 'running') and r.expires_at = r.created_at + interval '30 days';

-- For the list of top-level workflows, latest first: of all, or of one name.
create index composition_latest on windlass.composition (org, created_at desc, run_id desc) where parent_id is null;
create index composition_name on windlass.composition (org, name, created_at desc, run_id desc) where parent_id is null;

-- Unique keys of the jobs of a composition. A job row contains its key, but a waiting step has no job row yet.
create table windlass.reserved_key (
  key    text not null,
  run_id uuid not null,
  step   integer not null,
  primary key (run_id, step)
);
create index reserved_key_key on windlass.reserved_key (key);
