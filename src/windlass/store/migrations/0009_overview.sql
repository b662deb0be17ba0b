-- May run before the new code: yes (indexes; older code lists jobs that are not due more slowly until it is replaced).
-- For queues, dead letters and statistics of the last day.

-- Paused queues, read by every claim.
create index queue_paused on windlass.queue (name) where paused;

-- Rows that are not due yet, by queue and age: for lists, and for the depth of a queue. Replaces the index by age.
create index idx_workflow_run_wait_queue on workflow.workflow_run (queue, seq) where status = 'pending' and not due;
drop index workflow.idx_workflow_run_wait_seq;

-- Every queue that has such rows, by a loose index scan.
create view windlass.waiting_queue as
with recursive waiting as (
  (select queue from workflow.workflow_run where status = 'pending' and not due order by queue limit 1)
  union all
  select next.queue from waiting cross join lateral (
    select j.queue from workflow.workflow_run j where j.status = 'pending' and not j.due and j.queue > waiting.queue
     order by j.queue limit 1) as next)
select queue from waiting;

-- The kind of an error: its type and its first line, without variable parts. Quoted parts, ids and numbers are masked; numbers
-- that identify the kind of error (answered 503, status 404) are kept.
create function windlass.error_kind(last_error text, errors jsonb) returns text language sql immutable parallel safe
  return left(case when errors -> -1 ->> 'message' = last_error then coalesce(errors -> -1 ->> 'type' || ': ', '') else '' end
    || regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
         left(rtrim(split_part(coalesce(nullif(btrim(last_error, E' \t\r\n'), ''), 'no error was told'), E'\n', 1)), 300),
         '^lease lost: .* fell silent$', 'lease lost: <id> fell silent'),
         '(^|[^[:alnum:]])(''[^'']*''|"[^"]*"|`[^`]*`)', '\1<text>', 'g'),
         '\m[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\M', '<id>', 'gi'),
         '(?<!\m(answered|status|code|http|errno|sqlstate)[ :=]{1,2})\m[0-9]+([.,][0-9]+)*\M', '<n>', 'gi'),
         '\m([[:alpha:]_]+[0-9]|[0-9]+[[:alpha:]_])[[:alnum:]_]*\M', '<id>', 'g'), 300);

-- Jobs that failed and were not reopened, by kind of error. Only failures write to this index.
create index idx_workflow_run_failed on workflow.workflow_run
  (org, type, queue, windlass.error_kind(last_error, errors), (run_id is not null), seq)
  where status = 'failed' and deleted_at is null;

-- Each kind of dead letter of an org, by a loose index scan; at most ten thousand kinds.
create function windlass.dead_letters(org text) returns table (type text, queue text, error text, of_run boolean)
language sql stable parallel safe as $$
with recursive dead as (
  (select j.type, j.queue, windlass.error_kind(j.last_error, j.errors) as error, j.run_id is not null as of_run
     from workflow.workflow_run j
    where j.status = 'failed' and j.deleted_at is null and j.org = dead_letters.org
    order by j.type, j.queue, windlass.error_kind(j.last_error, j.errors), (j.run_id is not null) limit 1)
  union all
  select next.* from dead cross join lateral (
    select j.type, j.queue, windlass.error_kind(j.last_error, j.errors), j.run_id is not null
      from workflow.workflow_run j
     where j.status = 'failed' and j.deleted_at is null and j.org = dead_letters.org
       and (j.type, j.queue, windlass.error_kind(j.last_error, j.errors), (j.run_id is not null))
         > (dead.type, dead.queue, dead.error, dead.of_run)
     order by j.type, j.queue, windlass.error_kind(j.last_error, j.errors), (j.run_id is not null) limit 1) as next)
select dead.type, dead.queue, dead.error, dead.of_run from dead limit 10000 $$;

-- For statistics of the last day by state: includes state and org, for index-only scans.
create index run_ended on windlass.run (finished_at, state, org) where finished_at is not null;
drop index windlass.run_finished;
