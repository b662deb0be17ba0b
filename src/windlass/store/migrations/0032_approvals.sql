-- May run before the new code: yes (a table that older code does not use).
-- Approvals: steps of runs that wait for the decision of a person. One row for each time that a step waited. Rows are changed under
-- the lock of their run, and stay until the run is deleted: they hold the outputs of their steps.
create table windlass.approval (
  id           uuid primary key,
  org          text not null,
  run_id       uuid not null,
  step         int not null,
  round        int not null,                    -- of the run
  task         text not null,                   -- the name of the step
  message      text not null,
  form         jsonb,                           -- a JSON Schema of the values
  roles        text[] not null,                 -- who may decide
  state        text not null default 'open' constraint approval_state_check
               check (state in ('open', 'approved', 'rejected', 'expired', 'cancelled')),
  requested_at timestamptz not null,
  until        timestamptz,                     -- for display; the timer of the step ends the wait
  escalated_at timestamptz,
  reminded_at  timestamptz,                     -- the latest time
  decided_at   timestamptz,                     -- or when it ended without a decision
  decided_by   text,
  form_values  jsonb,
  comment      text
);
create unique index approval_step on windlass.approval (run_id, step, round);
create index approval_open on windlass.approval (org, id) where state = 'open';
create index approval_ended on windlass.approval (org, id) where state <> 'open';

alter table windlass.approval enable row level security;
create policy of_org on windlass.approval
  using ((select windlass.acting_org()) is null or org = (select windlass.acting_org()))
  with check ((select windlass.acting_org()) is null or org = (select windlass.acting_org()));
