-- Runs. Lock order everywhere: run, job, timer, hook, each in ascending id. Parent and child runs are never locked together: they
-- communicate by notices, which are consumed under the lock of the run they are addressed to.

-- name: insert
-- scope: org
-- Insert runs and their first jobs, with their first events. Returns the inserted runs: one whose idempotency key (or
-- position below its parent) already exists is left out, but its jobs are not, so the caller must roll back the
-- transaction. Rows are inserted in the order of their keys, because two batches that share keys could otherwise
-- deadlock. The jobs are inserted here and not by `steps.enqueue`, so that a start can be a single statement. With $38,
-- nothing is inserted unless $38 is the number of the live version and the workflow is enabled.
with workflow as (
  select from windlass.workflow
   where id = $15 and ($38::int is null or live = $38 and enabled and deleted_at is null)),
requested as (
  select * from unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[], $6::jsonb[], $7::text[],
                       $8::uuid[], $9::int[], $10::int[], $11::int[], $12::int[], $13::jsonb[])
    as a(id, state, steps, fans, input, labels, idempotency_key, parent_id, parent_step, parent_item, parent_round, depth, headers)
   where exists (select from workflow)),
born as (
  insert into windlass.run (id, org, workflow_id, version_id, state, steps, fans, input, labels, idempotency_key, parent_id,
                            parent_step, parent_item, parent_round, depth, trigger_headers, created_at, started_at, finished_at,
                            expires_at)
  select id, $14, $15, $16, state, steps, fans, input, labels, idempotency_key, parent_id, parent_step, parent_item,
         parent_round, depth, headers, (select windlass.now()), case state when 'pending' then null else (select windlass.now()) end,
         case when state in ('pending', 'running') then null else (select windlass.now()) end,
         (select windlass.now()) + $17::interval
    from requested order by idempotency_key on conflict do nothing returning id, state, started_at),
logged as (
  insert into windlass.event (run_id, word, actor, created_at) select id, state, $18, (select windlass.now()) from born),
shape as (
  select * from unnest($19::int[], $20::int[], $21::text[], $22::jsonb[], $23::text[], $24::int[], $25::int[], $26::interval[],
                       $27::jsonb[], $28::boolean[])
    with ordinality as s(version_id, step, type, payload, queue, priority, max_attempts, timeout, retry, foreach, no)),
first_job as (
  insert into workflow.workflow_run (id, type, payload, queue, priority, max_attempts, timeout, retry, org, run_id, version_id,
                                     step, item, items, epoch, settled, run_at, created_at, updated_at, needs_created_event)
  select case a.count when 1 then a.id else windlass.new_id() end, s.type, coalesce(a.payload, s.payload),
         windlass.stored_queue(a.org, s.queue), s.priority, s.max_attempts, s.timeout, s.retry, a.org, a.run_id, s.version_id,
         s.step, n, a.items, a.round, false, (select windlass.now()), (select windlass.now()), (select windlass.now()), false
    from unnest($29::uuid[], $30::uuid[], $31::text[], $32::int[], $33::int[], $34::int[], $35::int[], $36::int[], $37::jsonb[])
      as a(id, run_id, org, no, round, first, count, items, payload)
    join shape s on s.no = a.no
   cross join lateral generate_series(a.first, a.first + a.count - 1) as n
   where exists (select from workflow)
  returning id),
created as (
  insert into workflow.workflow_event (workflow_id, event_type, actor, created_at)
  select id, 'created', $18, (select windlass.now()) from first_job)
select id, state, started_at from born

-- name: insert_children
-- scope: org
-- Insert child runs of a step, one per instance, all of them pending: they are started separately, a moment later. A composition
-- already has its run id and, if it repeats an earlier one, the step states copied from it.
with requested as (
  select * from unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::int[], $6::uuid[], $7::int[], $8::text[], $9::jsonb[],
                       $10::interval[], $11::boolean[], $12::jsonb[])
    as a(parent_id, step, first, count, round, workflow_id, version_id, steps, input, max_duration, foreach, labels)),
born as (
  insert into windlass.run (id, org, workflow_id, version_id, state, steps, input, labels, parent_id, parent_step, parent_item,
                            parent_round, depth, root_id, paused_at, expires_at)
  select coalesce(c.run_id, windlass.new_id()), p.org, a.workflow_id, a.version_id, 'pending', coalesce(c.steps, a.steps),
         case when a.foreach then case jsonb_typeof(a.input) when 'object' then a.input else '{}' end || jsonb_build_object('item', (
                select value from windlass.item i where i.run_id = a.parent_id and i.step = a.step and i.item = n))
              else a.input end,
         coalesce(a.labels, nullif(jsonb_strip_nulls(jsonb_build_object('name', nullif(c.name, ''), 'workflow_id', c.alias)), '{}')),
         a.parent_id, a.step, n, a.round, p.depth + 1, coalesce(p.root_id, p.id), p.paused_at,
         windlass.now() + a.max_duration
    from requested a join only windlass.run p on p.id = a.parent_id
    left join windlass.composition c on c.parent_id = a.parent_id and c.parent_step = a.step and a.round = 0
   cross join lateral generate_series(a.first, a.first + a.count - 1) as n
  on conflict do nothing returning id)
insert into windlass.event (run_id, word, actor) select id, 'pending', $13 from born

-- name: live_below
-- scope: owned
-- Return the root of the tree that each of these runs belongs to, and the number of live runs below that root, counted up to $2.
select p.id, coalesce(p.root_id, p.id) as root_id, (
         select count(*) from (
           select from only windlass.run r
            where r.root_id = coalesce(p.root_id, p.id) and r.root_id is not null and r.state in ('pending', 'running') limit $2) as few) as live
  from only windlass.run p where p.id = any($1)

-- name: own_ancestors
-- scope: owned
-- Count, for each pair of run and workflow, how many of the run and its ancestors belong to the workflow.
with recursive line as (
  select r.id as run_id, a.workflow_id as counted_id, r.workflow_id, r.parent_id
    from unnest($1::uuid[], $2::uuid[]) as a(run_id, workflow_id) join windlass.run r on r.id = a.run_id
  union all
  select line.run_id, line.counted_id, r.workflow_id, r.parent_id from line join windlass.run r on r.id = line.parent_id)
select run_id, counted_id, count(*) filter (where workflow_id = counted_id) from line group by run_id, counted_id

-- name: find_keys
-- scope: org
-- Return the runs that have these idempotency keys.
select idempotency_key, id, workflow_id from windlass.run where org = $1 and idempotency_key = any($2)

-- name: lock
-- scope: owned
-- Lock these runs in ascending id and return the whole state of each.
select id, org, workflow_id, version_id, state, steps, fans, round, depth, expires_at, windlass.now(), paused_at is not null
  from only windlass.run
 where id = any($1) order by id for update

-- name: lock_free
-- scope: owned
-- Lock these runs like `lock`, but skip those that another session has locked.
select id, org, workflow_id, version_id, state, steps, fans, round, depth, expires_at, windlass.now(), paused_at is not null
  from only windlass.run
 where id = any($1) order by id for update skip locked

-- name: save
-- scope: owned
-- Write the new states of runs. If a child run ended, insert a notice for its parent; if a run ended that a handler
-- waits for, insert an event for the handler. Returns whether a notice or such an event was inserted. A parent is
-- notified only of the end in round 0: a child that is retried later does not notify it again.
with done as (
  update only windlass.run r
     set steps = d.steps, state = d.state, fans = d.fans, round = d.round,
         started_at = case when d.state = 'pending' or r.state = 'pending' and d.state in ('cancelled', 'timeout') then null
                           else coalesce(r.started_at, (select windlass.now())) end,
         finished_at = case when d.state in ('pending', 'running') then null
                            when d.word is null then r.finished_at else (select windlass.now()) end
    from unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::int[], $6::text[], $7::text[], $8::text[])
      as d(id, state, steps, fans, round, word, code, reason)
   where r.id = d.id
  returning r.id, d.state, d.word, d.code, d.reason, d.round, r.parent_id, r.parent_step, r.parent_item, r.parent_round, r.org, r.job_id),
logged as (
  insert into windlass.event (run_id, word, code, reason, actor, created_at)
  select id, word, code, reason, $9, (select windlass.now()) from done where word is not null),
notified as (
  insert into windlass.notice (run_id, word, step, item, round, letter, reason)
  select parent_id, 'ended', parent_step, parent_item, parent_round,
         case state when 'completed' then 's' when 'timeout' then 't' when 'cancelled' then 'c' else 'f' end,
         'run ' || id || case state when 'completed' then ' completed' when 'timeout' then ' timed out'
                                    when 'cancelled' then ' was cancelled' else ' failed' end
    from done where word is not null and state not in ('pending', 'running') and round = 0
     and exists (select from only windlass.run above where above.id = done.parent_id)
  returning 1),
published as (
  insert into windlass.message (org, name, key, is_signal, payload, sender)
  select org, 'windlass.run', id::text, false, jsonb_build_object('run', id), 'windlass'
    from done where job_id is not null and word is not null and state not in ('pending', 'running')
  returning 1)
select exists (select from notified) or exists (select from published)

-- name: log
-- scope: owned
-- Write events of runs and their steps, with reasons.
insert into windlass.event (run_id, step, word, code, reason, actor, created_at)
select n.run_id, n.step, n.word, n.code, n.reason, $6, (select windlass.now())
  from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[]) as n(run_id, step, word, code, reason)

-- name: find_unsettled
-- scope: global
-- Return runs with unapplied events: job ends that were not recorded by Python workers, notices, and messages that steps received.
-- Runs in quarantine are filtered out before the limit, so that their rows do not hide those of other runs.
(select distinct run_id from (
   select run_id from only workflow.workflow_run
    where not settled and (status in ('succeeded', 'failed', 'cancelled') or deleted_at is not null)
      and run_id <> all(array(select key::uuid from windlass.quarantine where kind = 'run')) limit $1) as ended)
union
(select distinct run_id from (
   select run_id from windlass.notice where run_id <> all(array(select key::uuid from windlass.quarantine where kind = 'run'))
    order by run_id limit $1) as notified)
union
(select distinct run_id from (
   select run_id from windlass.waiter
    where state = 'received' and run_id is not null
      and run_id <> all(array(select key::uuid from windlass.quarantine where kind = 'run')) order by id limit $1) as received)

-- name: take_notices
-- scope: owned
-- Delete and return the notices of these runs. The caller holds the locks of the runs.
delete from windlass.notice where run_id = any($1) returning run_id, word, step, item, round, letter, reason

-- name: withdraw_children
-- scope: owned
-- Insert a notice to cancel (or to cancel and undo) for each live child run of these steps.
insert into windlass.notice (run_id, word, reason)
select c.id, w.word, w.reason
  from unnest($1::uuid[], $2::int[], $3::text[], $4::text[]) as w(run_id, step, word, reason)
  join only windlass.run c on c.parent_id = w.run_id and c.parent_step = w.step
 where c.state in ('pending', 'running')

-- name: undo_children
-- scope: owned
-- Insert a notice to undo for the latest child run of each instance of these steps, with the compensation that waits
-- for the reply. Returns the number of notices for each run and compensation.
with requested as (
  select * from unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::text[]) as w(run_id, step, compensation, count, reason)),
child as (
  select w.run_id, w.compensation, w.reason, c.id
    from requested w cross join lateral (
      select distinct on (parent_item) id from only windlass.run c
       where c.parent_id = w.run_id and c.parent_step = w.step and c.parent_item < w.count
       order by parent_item, parent_round desc) as c),
notified as (
  insert into windlass.notice (run_id, word, step, reason) select id, 'undo', compensation, reason from child)
select w.run_id, w.compensation, (select count(*) from child c where c.run_id = w.run_id and c.compensation = w.compensation)::int
  from requested w

-- name: reply
-- scope: owned
-- Insert notices for the parents of runs that were undone at their request.
insert into windlass.notice (run_id, word, step, item, letter, reason)
select r.parent_id, 'ended', w.step, r.parent_item, w.letter, w.reason
  from unnest($1::uuid[], $2::int[], $3::text[], $4::text[]) as w(run_id, step, letter, reason)
  join only windlass.run r on r.id = w.run_id
 where exists (select from only windlass.run above where above.id = r.parent_id)

-- name: bad_children
-- scope: owned
-- Return the instances of a step, of the first $3, that have no child run, or whose latest one is of an earlier round and did not
-- complete. What counts is the first end of a child run, which is the one its parent was notified of.
select n from generate_series(0, $3::int - 1) as n
  left join lateral (
    select id, parent_round from only windlass.run where parent_id = $1 and parent_step = $2 and parent_item = n
     order by parent_round desc limit 1) as c on true
 where c.id is null or c.parent_round < $4 and (
         select word from windlass.event e where e.run_id = c.id and e.step is null
            and e.word in ('completed', 'failed', 'cancelled', 'timeout') order by e.id limit 1) <> 'completed'
 order by n limit $5

-- name: find_pending
-- scope: global
-- Return up to $1 workflows that have pending runs, in the order of their ids: those above $2 first, then the others.
-- The caller passes the last one of its previous call, so that workflows at their concurrency limit cannot hide the
-- others.
with recursive later as (
  (select workflow_id from only windlass.run where state = 'pending' and workflow_id > $2 order by workflow_id limit 1)
  union all
  select (select r.workflow_id from only windlass.run r where r.state = 'pending' and r.workflow_id > later.workflow_id
           order by r.workflow_id limit 1) from later where later.workflow_id is not null),
earlier as (
  (select workflow_id from only windlass.run where state = 'pending' and workflow_id <= $2 order by workflow_id limit 1)
  union all
  select (select r.workflow_id from only windlass.run r
           where r.state = 'pending' and r.workflow_id > earlier.workflow_id and r.workflow_id <= $2
           order by r.workflow_id limit 1) from earlier where earlier.workflow_id is not null)
select workflow_id from (select workflow_id from later union all select workflow_id from earlier) as held
 where workflow_id is not null and workflow_id <> all(array(select key::uuid from windlass.quarantine where kind = 'workflow'))
 limit $1

-- name: lock_workflow
-- scope: global
-- Lock a workflow before starting pending runs of it: without the lock two processes could both use the last free slot. Returns
-- the id of its live version.
select v.id from windlass.workflow w join windlass.version v on v.workflow_id = w.id and v.number = w.live
 where w.id = $1 for no key update of w

-- name: lock_free_workflow
-- scope: global
-- Lock a workflow like `lock_workflow`, but return no row if another session has locked it.
select v.id from windlass.workflow w join windlass.version v on v.workflow_id = w.id and v.number = w.live
 where w.id = $1 for no key update of w skip locked

-- name: now
-- scope: global
-- Return the current time.
select windlass.now()

-- name: running
-- scope: global
-- Count the running runs of this workflow.
select count(*) from only windlass.run where workflow_id = $1 and state in ('pending', 'running') and state = 'running'

-- name: workflows_of
-- scope: owned
-- Return the workflows of these runs. Takes no lock: a workflow is locked before its runs.
select id, workflow_id from windlass.run where id = any($1)

-- name: first_pending
-- scope: global
-- Return the oldest pending runs of this workflow.
select id from only windlass.run where workflow_id = $1 and state = 'pending'
   and id <> all(array(select key::uuid from windlass.quarantine where kind = 'run')) order by id limit $2

-- name: find_expired
-- scope: global
-- Return live runs that have reached `expires_at`. A run that is being undone no longer has a time limit.
select id from only windlass.run where state in ('pending', 'running') and expires_at <= windlass.now() and fans #> '{undo,move}' is null
   and id <> all(array(select key::uuid from windlass.quarantine where kind = 'run')) order by expires_at limit $1

-- name: replace_input
-- scope: owned
-- Set another input for runs that are retried, if one is given, and restart their time limit with the length it had when they
-- last started.
update only windlass.run r set input = coalesce($2::jsonb, input), expires_at = windlass.now() + (r.expires_at - coalesce((
         select max(e.created_at) from windlass.event e where e.run_id = r.id and e.step is null and e.word in ('retried', 'rerun')),
         r.created_at))
 where id = any($1)

-- name: get
-- scope: org
-- Return one run with all columns, and the snapshot with which it was read.
select r.*, w.name as workflow, w.hidden, v.number as version, pg_current_snapshot()::text as snapshot from windlass.run r
  join windlass.version v on v.id = r.version_id join windlass.workflow w on w.id = r.workflow_id
 where r.id = $1 and r.org = $2

-- name: states
-- scope: owned
-- Return the states of these runs.
select id, state from windlass.run where id = any($1)

-- name: list
-- scope: org
-- List runs, newest first, with ids below $5 and from $7 on, through the primary key. Ids contain the creation time, but only
-- created_at is exact.
select r.*, w.name as workflow, v.number as version from windlass.run r
  join windlass.version v on v.id = r.version_id join windlass.workflow w on w.id = r.workflow_id
 where r.org = $1 and $2::uuid is null and ($3::text[] is null or r.state = any($3))
   and ($4::jsonb is null or r.labels @> $4) and r.id < $5 and r.id >= $7
   and ($8::timestamptz is null or r.created_at >= $8) and ($9::timestamptz is null or r.created_at < $9)
 order by r.id desc limit $6

-- name: list_of_workflow
-- scope: org
-- List the runs of one workflow like `list`.
select r.*, w.name as workflow, v.number as version from windlass.run r
  join windlass.version v on v.id = r.version_id join windlass.workflow w on w.id = r.workflow_id
 where r.org = $1 and r.workflow_id = $2 and ($3::text[] is null or r.state = any($3))
   and ($4::jsonb is null or r.labels @> $4) and r.id < $5 and r.id >= $7
   and ($8::timestamptz is null or r.created_at >= $8) and ($9::timestamptz is null or r.created_at < $9)
 order by r.id desc limit $6

-- name: list_by_state
-- scope: org
-- List runs in states other than `completed`, through an index that contains only those.
with r as materialized (
  select run.* from unnest($3::text[]) as s(state) cross join lateral (
    select * from windlass.run where state <> 'completed' and state = s.state and org = $1
       and ($2::uuid is null or workflow_id = $2) and ($4::jsonb is null or labels @> $4) and id < $5 and id >= $7
       and ($8::timestamptz is null or created_at >= $8) and ($9::timestamptz is null or created_at < $9)
       and ($10::text is null or id between $11 and $12 or workflow_id = any(array(
             select id from windlass.workflow where org = $1 and starts_with(name, $10) limit 100))
            or exists (select from jsonb_each_text(labels) as l where starts_with(l.key, $10) or starts_with(l.value, $10)))
       and (not $13::boolean or exists (
             select from workflow.workflow_run j where j.run_id = run.id and j.status = 'pending' and not j.due))
     order by id desc limit $6) as run)
select r.*, w.name as workflow, v.number as version from r
  join windlass.version v on v.id = r.version_id join windlass.workflow w on w.id = r.workflow_id
 order by r.id desc limit $6

-- name: list_labelled
-- scope: org
-- List runs with a label, through the index on labels. $10 and $11 are the key and value of one label of $4, in the form in which
-- the index stores it.
select r.*, w.name as workflow, v.number as version from windlass.label l join windlass.run r on r.id = l.run_id
  join windlass.version v on v.id = r.version_id join windlass.workflow w on w.id = r.workflow_id
 where l.org = $1 and l.key = $10 and l.value = $11 and l.run_id < $5 and l.run_id >= $7
   and ($2::uuid is null or r.workflow_id = $2) and ($3::text[] is null or r.state = any($3)) and r.labels @> $4
   and ($8::timestamptz is null or r.created_at >= $8) and ($9::timestamptz is null or r.created_at < $9)
 order by l.run_id desc limit $6

-- name: list_retrying
-- scope: org
-- List runs that have a step waiting for its next attempt, through the index on such jobs.
with j as (
  select distinct run_id from workflow.workflow_run
   where status = 'pending' and not due and run_id is not null and run_id < $5 and run_id >= $7 order by run_id desc)
select r.*, w.name as workflow, v.number as version from j join windlass.run r on r.id = j.run_id
  join windlass.version v on v.id = r.version_id join windlass.workflow w on w.id = r.workflow_id
 where r.org = $1 and ($2::uuid is null or r.workflow_id = $2) and ($3::text[] is null or r.state = any($3))
   and ($4::jsonb is null or r.labels @> $4) and $13::boolean
   and ($8::timestamptz is null or r.created_at >= $8) and ($9::timestamptz is null or r.created_at < $9)
   and ($10::text is null or r.id between $11 and $12 or starts_with(w.name, $10)
        or exists (select from jsonb_each_text(r.labels) as l where starts_with(l.key, $10) or starts_with(l.value, $10)))
 order by j.run_id desc limit $6

-- name: list_about
-- scope: org
-- List runs whose id, workflow name, or a label key or value starts with $10. Reads one page for each way to match, and at most
-- the first hundred names, keys, and values of a key. `between` and the order by two columns keep the planner on the index on
-- workflows: without them it would walk through all runs to find the few of a workflow.
with recursive key as (
  (select key, 1 as n from windlass.label where org = $1 order by key limit 1)
  union all
  select (select l.key from windlass.label l where l.org = $1 and l.key > key.key order by l.key limit 1), n + 1
    from key where key.key is not null and n < 100),
pair as (
  select key.key, v.value from key cross join lateral (
    with recursive v as (
      (select value, 1 as n from windlass.label where org = $1 and label.key = key.key and value >= $10 order by value limit 1)
      union all
      select (select l.value from windlass.label l where l.org = $1 and l.key = key.key and l.value > v.value order by l.value limit 1),
             v.n + 1 from v where starts_with(v.value, $10) and v.n < 100)
    select value from v where starts_with(value, $10)) as v),
hit as (
  (select r.id from windlass.run r
    where r.id between $11 and $12 and r.id < $5 and r.id >= $7 and r.org = $1
      and ($2::uuid is null or r.workflow_id = $2) and ($3::text[] is null or r.state = any($3)) and ($4::jsonb is null or r.labels @> $4)
      and ($8::timestamptz is null or r.created_at >= $8) and ($9::timestamptz is null or r.created_at < $9)
    order by r.id desc limit $6)
  union all
  (select r.id from (select id from windlass.workflow where org = $1 and starts_with(name, $10) limit 100) as w
    cross join lateral (
      select r.id from windlass.run r where r.workflow_id between w.id and w.id and r.id < $5 and r.id >= $7 and r.org = $1
      and ($2::uuid is null or r.workflow_id = $2) and ($3::text[] is null or r.state = any($3)) and ($4::jsonb is null or r.labels @> $4)
      and ($8::timestamptz is null or r.created_at >= $8) and ($9::timestamptz is null or r.created_at < $9)
       order by r.workflow_id desc, r.id desc limit $6) as r)
  union all
  (select r.id from key cross join lateral (
     select r.id from windlass.label l join windlass.run r on r.id = l.run_id
      where l.org = $1 and l.key = key.key and l.run_id < $5 and l.run_id >= $7
      and ($2::uuid is null or r.workflow_id = $2) and ($3::text[] is null or r.state = any($3)) and ($4::jsonb is null or r.labels @> $4)
      and ($8::timestamptz is null or r.created_at >= $8) and ($9::timestamptz is null or r.created_at < $9)
      order by l.run_id desc limit $6) as r
    where starts_with(key.key, $10))
  union all
  (select r.id from pair cross join lateral (
     select r.id from windlass.label l join windlass.run r on r.id = l.run_id
      where l.org = $1 and l.key = pair.key and l.value = pair.value and l.run_id < $5 and l.run_id >= $7
      and ($2::uuid is null or r.workflow_id = $2) and ($3::text[] is null or r.state = any($3)) and ($4::jsonb is null or r.labels @> $4)
      and ($8::timestamptz is null or r.created_at >= $8) and ($9::timestamptz is null or r.created_at < $9)
      order by l.run_id desc limit $6) as r))
select r.*, w.name as workflow, v.number as version from windlass.run r
  join windlass.version v on v.id = r.version_id join windlass.workflow w on w.id = r.workflow_id
 where r.id = any(array(select distinct id from hit order by id desc limit $6)) and not $13::boolean order by r.id desc

-- name: find_live
-- scope: org
-- Return the ids of the live runs that `list_by_state` would list.
select id from windlass.run
 where state in ('pending', 'running') and state = any($3) and org = $1 and ($2::uuid is null or workflow_id = $2)
   and ($4::jsonb is null or labels @> $4) and id < $5 and id >= $7
   and ($8::timestamptz is null or created_at >= $8) and ($9::timestamptz is null or created_at < $9)
   and ($10::text is null or id between $11 and $12 or workflow_id = any(array(
         select id from windlass.workflow where org = $1 and starts_with(name, $10) limit 100))
        or exists (select from jsonb_each_text(labels) as l where starts_with(l.key, $10) or starts_with(l.value, $10)))
   and (not $13::boolean or exists (
         select from workflow.workflow_run j where j.run_id = run.id and j.status = 'pending' and not j.due))
 order by id desc limit $6

-- name: find_bad
-- scope: org
-- Return the ids of the runs that ended badly that `list_by_state` would list, without child runs.
select run.id from unnest($3::text[]) as s(state) cross join lateral (
  select id from windlass.run where state in ('failed', 'cancelled', 'timeout') and state = s.state and org = $1
     and ($2::uuid is null or workflow_id = $2) and ($4::jsonb is null or labels @> $4) and id < $5 and id >= $7
     and ($8::timestamptz is null or created_at >= $8) and ($9::timestamptz is null or created_at < $9) and parent_id is null
     and ($10::text is null or id between $11 and $12 or workflow_id = any(array(
           select id from windlass.workflow where org = $1 and starts_with(name, $10) limit 100))
          or exists (select from jsonb_each_text(labels) as l where starts_with(l.key, $10) or starts_with(l.value, $10)))
     and (not $13::boolean or exists (
           select from workflow.workflow_run j where j.run_id = run.id and j.status = 'pending' and not j.due))
   order by id desc limit $6) as run
 order by run.id desc limit $6

-- name: trail
-- scope: owned
-- Return the event trail of a run merged with the events of its step jobs: up to $2 lines of each, after $3 and $4. Fanned-out
-- steps are not in $6: they have lines of their own in the event trail of the run, and any number of jobs. Failures and
-- cancellations of jobs are left out, because the line of the step reports them.
(select id, step, word, code, reason, actor, created_at, null::int as attempt, false as of_job, xid::text from windlass.event
  where run_id = $1 and id > $3 and ($5::bigint is null or id < $5) order by id limit $2)
union all
(select e.id, j.step,
        case when e.event_type = 'created' or e.data ->> 'reason' = 'reopened' then 'queued'
             when e.event_type = 'retried' then 'retrying' when e.event_type = 'succeeded' then 'succeeded' else 'active' end,
        null, case e.event_type when 'retried' then coalesce(e.data ->> 'error', e.data ->> 'reason') end, e.actor, e.created_at,
        e.attempt, true, e.xid::text
   from workflow.workflow_run j join workflow.workflow_event e on e.workflow_id = j.id
  where j.run_id = $1 and j.step = any($6::int[]) and e.id > $4 and e.created_at >= $7
    and ($8::timestamptz is null or e.created_at < $8)
    and e.event_type in ('created', 'leased', 'started', 'retried', 'succeeded')
  order by e.id limit $2)

-- name: events
-- scope: owned
-- Return the events of a run, without those of its jobs, oldest first.
select id, step, word, code, reason, actor, created_at from windlass.event where run_id = $1 order by id limit $2

-- name: turns
-- scope: owned
-- Return the events that concern a run as a whole, oldest first.
select id, word, created_at from windlass.event where run_id = $1 and step is null order by id

-- name: prune
-- scope: global
-- Delete a batch of runs that ended before the cutoff, with all dependent rows. A child run is deleted only after its
-- parent, because its output is part of the output of the parent. The runs of a batch have at most $3 jobs in total,
-- unless the oldest one alone has more: otherwise a batch of large fan-outs would be one statement of minutes. Returns
-- the number of deleted runs, or $2 if the limit left runs over.
with old as (
  select id, finished_at from only windlass.run r where finished_at < windlass.now() - $1::interval
     and not exists (select from only windlass.run above where above.id = r.parent_id)
   order by finished_at limit $2 for update skip locked),
sized as materialized (
  select id, row_number() over place = 1 or sum(jobs) over place <= $3 as fits
    from old cross join lateral (
      select count(*) as jobs from (select from only workflow.workflow_run j where j.run_id = old.id limit $3) as few) as own
  window place as (order by finished_at, id)),
gone as (delete from only windlass.run where id = any(array(select id from sized where fits)) returning id),
jobs as (delete from only workflow.workflow_run where run_id = any(array(select id from gone)) returning id),
logs as (delete from windlass.job_log where job_id = any(array(select id from jobs))),
streamed as (delete from windlass.stream_chunk where job_id = any(array(select id from jobs))),
saved as (delete from windlass.checkpoint where job_id = any(array(select id from jobs))),
said as (delete from windlass.progress where job_id = any(array(select id from jobs))),
files as (update windlass.artifact set remove_at = windlass.now() where job_id = any(array(select id from jobs))),
parts as (delete from windlass.composition where root_id = any(array(select id from gone)) returning run_id),
names as (delete from windlass.reserved_id where run_id = any(array(select run_id from parts))),
keys as (delete from windlass.reserved_key where run_id = any(array(select run_id from parts))),
items as (delete from windlass.item where run_id = any(array(select id from gone))),
news as (delete from windlass.notice where run_id = any(array(select id from gone))),
hooks as (delete from windlass.hook where run_id = any(array(select id from gone))),
asked as (delete from windlass.approval where run_id = any(array(select id from gone))),
waiters as (delete from windlass.waiter where run_id = any(array(select id from gone))),
waits as (delete from windlass.waiter where job_id = any(array(select id from jobs))),
trail as (delete from windlass.event where run_id = any(array(select id from gone)))
select case when exists (select from sized where not fits) then $2 else (select count(*) from gone) end
