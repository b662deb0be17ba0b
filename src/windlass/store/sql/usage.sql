-- The usage of orgs: the monthly count of executions, which is read from the event trail, and the data needed to admit
-- work.

-- name: begin
-- scope: global
-- Start to count at this position, unless the count has begun.
insert into windlass.bookmark (reader, place, read_at) values ('usage', $1, windlass.now()) on conflict do nothing

-- name: lock
-- scope: global
-- Lock the position up to which events are counted. Returns no row if the count has not begun or another process has
-- locked the position. The statistics of the event trail do not include its latest rows: the planner expects few of
-- them and would group them by sorting. The setting makes it hash them, for this transaction.
select place, set_config('enable_sort', 'off', true) from windlass.bookmark where reader = 'usage' for update skip locked

-- name: count
-- scope: global
-- Count the `created` events after a snapshot and before transaction $3, by org and month. $1 and $2 describe the
-- snapshot: its xmax and the transactions that were in progress. The org is in the row of the job, which is read only
-- if there are other orgs than `default` or `default` has a limit. Computing the month of a time is slow: all events of
-- a statement have the same time, so it is computed once per time.
with apart as materialized (
  select exists (select from windlass.org o join windlass.plan p on p.name = o.plan
                  where o.name <> 'default' or p.executions_per_month is not null) as needed),
fresh as (
  select workflow_id, created_at from workflow.workflow_event where xid = any($2::text[]::xid8[]) and event_type = 'created'
  union all
  select workflow_id, created_at from workflow.workflow_event
   where xid >= $1::text::xid8 and xid < $3::text::xid8 and xid < pg_snapshot_xmax(pg_current_snapshot())
     and event_type = 'created'),
by_time as (
  select case when apart.needed then (select j.org from workflow.workflow_run j where j.id = fresh.workflow_id)
              else 'default' end as org,
         fresh.created_at, count(*) as executions
    from fresh cross join apart group by 1, 2),
counted as (
  select org, date_trunc('month', created_at at time zone 'UTC')::date::text as month, sum(executions)::bigint as executions
    from by_time group by 1, 2)
select pg_current_snapshot()::text as snapshot, windlass.now() as read_at, c.*
  from (select 1) as one left join counted c on c.org is not null

-- name: add
-- scope: global
-- Add to the counts and move the position, which the caller has locked.
with moved as (update windlass.bookmark set place = $1, read_at = $2 where reader = 'usage')
insert into windlass.usage as u (org, month, executions)
select org, month::date, executions from unnest($3::text[], $4::text[], $5::bigint[]) as n(org, month, executions) order by 1, 2
on conflict (org, month) do update set executions = u.executions + excluded.executions

-- name: allowances
-- scope: global
-- Return the limits of orgs, their executions of this month, and how many seconds ago those were last counted.
select o.name, p.workflows, p.steps_per_workflow, p.runs_at_once, p.executions_per_month, p.executions_at_once, p.schedules,
       o.disabled_at is not null as disabled, coalesce(u.executions, 0) as executions, windlass.now() as now,
       extract(epoch from windlass.now() - b.read_at)::float8 as lag
  from windlass.org o
  join windlass.plan p on p.name = o.plan
  left join windlass.usage u on u.org = o.name and u.month = date_trunc('month', windlass.now() at time zone 'UTC')::date
  left join windlass.bookmark b on b.reader = 'usage'
 where o.name = any($1)

-- name: lock_runs
-- scope: org, in the key
-- Lock the starts of runs of an org, so that two transactions cannot both use the last free slot.
select pg_advisory_xact_lock(hashtextextended('windlass.org.runs/' || $1::text, 0))

-- name: live_runs
-- scope: org
-- Count the live runs of an org up to $2: those of its own workflows, without child runs.
select count(*) from (
  select from windlass.workflow w join windlass.run r on r.workflow_id = w.id
   where w.org = $1 and not w.hidden and r.state in ('pending', 'running') and r.parent_id is null limit $2) as live

-- name: lock_workflows
-- scope: org, in the key
-- Lock the publications of an org. This lock is separate from that of `lock_runs`, because a publication waits for
-- locks of schedules, whose holders wait for `lock_runs`.
select pg_advisory_xact_lock(hashtextextended('windlass.org.workflows/' || $1::text, 0))

-- name: workflow_names
-- scope: org
-- Return the names of the workflows that an org has published.
select name from windlass.workflow where org = $1 and deleted_at is null and not hidden

-- name: lock_claims
-- scope: global
-- Lock the claims of each of these orgs whose lock is free, until the end of the transaction. Returns the locked orgs.
select org from unnest($1::text[]) as o(org)
 where pg_try_advisory_xact_lock(hashtextextended('windlass.org.claims/' || org, 0))

-- name: wait_for_claims
-- scope: org, in the key
-- Lock the claims of an org, until the end of the transaction.
select pg_advisory_xact_lock(hashtextextended('windlass.org.claims/' || $1::text, 0))

-- name: leased
-- scope: global
-- Count the leased jobs of these orgs. Must be a separate statement after the lock: a statement that waits for a lock,
-- or tries it, counts in a snapshot from before.
select org, count(*) from workflow.workflow_run where status = 'leased' and org = any($1) group by org

-- name: list
-- scope: global
-- List the usage of at most $3 orgs by name, after $2; with $1, only that org. Runs are counted up to $4.
select o.name, o.plan, coalesce(u.executions, 0) as executions, b.read_at as counted_at, windlass.now() as now,
       (select count(*) from windlass.workflow w where w.org = o.name and w.deleted_at is null and not w.hidden) as workflows,
       (select count(*) from (
          select from windlass.workflow w join windlass.run r on r.workflow_id = w.id
           where w.org = o.name and not w.hidden and r.state in ('pending', 'running') and r.parent_id is null limit $4) as live) as runs,
       (select count(*) from workflow.workflow_run j where j.status = 'leased' and j.org = o.name) as executing
  from windlass.org o
  left join windlass.usage u on u.org = o.name and u.month = date_trunc('month', windlass.now() at time zone 'UTC')::date
  left join windlass.bookmark b on b.reader = 'usage'
 where ($1::text is null or o.name = $1) and o.name > $2
 order by o.name limit $3

-- name: history
-- scope: org
-- Return the executions of the latest $2 months of an org, newest first.
select to_char(month, 'YYYY-MM'), executions from windlass.usage where org = $1 order by usage.month desc limit $2
