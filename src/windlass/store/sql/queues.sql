-- Queues: their contents, their throughput and their settings. A queue exists as soon as a job names it. Rate limits: queries
-- for inspection and upkeep.

-- name: list
-- scope: org
-- List at most $2 queues of org $5 by stored name, after name $1, each with the numbers of due, scheduled and leased
-- jobs, the first two counted up to $3 (per lane and per queue). The cost grows with the number of lanes and leased
-- jobs, not with the depth or the history.
with due as (
  select lane.queue, sum(counted.n) as n, max(windlass.now() - greatest(head.run_at, head.updated_at)) as oldest,
         bool_or(counted.n = $3) as capped
    from windlass.lanes(array(select * from windlass.pending_queues($5, true))) as lane
   cross join lateral (
     select j.run_at, j.updated_at from workflow.workflow_run j
      where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue and j.type = lane.type
        and j.priority = lane.priority and j.alone = lane.alone and j.seq = lane.seq) as head
   cross join lateral (
     select count(*) as n from (
       select 1 from workflow.workflow_run j
        where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue and j.type = lane.type
          and j.priority = lane.priority and j.alone = lane.alone limit $3) as waiting) as counted
   where lane.queue > $1 and ($4::text is null or lane.queue = $4)
   group by lane.queue),
later as (
  select w.queue, counted.n from windlass.pending_queues($5, false) as w(queue) cross join lateral (
    select count(*) as n from (
      select 1 from workflow.workflow_run j where j.status = 'pending' and not j.due and j.queue = w.queue limit $3) as waiting) as counted
   where w.queue > $1 and ($4::text is null or w.queue = $4)),
held as (
  select queue, count(*) as n from workflow.workflow_run
   where status = 'leased' and org = $5 and queue > $1 and ($4::text is null or queue = $4) group by queue),
name as (
  select queue from due union select queue from later union select queue from held
  union (select q.name from windlass.queue q where q.org = $5 and q.name > $1 and ($4::text is null or q.name = $4) order by q.name limit $2))
select name.queue as name, coalesce(due.n, 0)::bigint as due, coalesce(later.n, 0)::bigint as scheduled,
       coalesce(held.n, 0)::bigint as leased, coalesce(due.capped, false) or coalesce(later.n = $3, false) as capped,
       due.oldest, coalesce(q.paused, false) as paused, q.paused_at, q.resumed_at
  from name
  left join due on due.queue = name.queue left join later on later.queue = name.queue
  left join held on held.queue = name.queue left join windlass.queue q on q.name = name.queue
 order by name.queue limit $2

-- name: rates
-- scope: org
-- Count the jobs of each queue of org $3 that ended, and the time span of the count, from the last $1 events, ignoring those older
-- than $2.
-- The event trail is read from its end, so the cost does not depend on the history.
with line as materialized (
  select workflow_id, event_type, created_at from workflow.workflow_event order by xid desc, id desc limit $1),
window_ as (
  select case when count(*) < $1 then $2::interval
              else least($2::interval, greatest(windlass.now() - min(created_at), interval '1 millisecond')) end as span
    from line),
ended as (
  select workflow_id from line
   where event_type in ('succeeded', 'failed', 'cancelled') and created_at > windlass.now() - $2::interval)
select j.queue, count(*) as ended, (select span from window_) as span
  from ended join workflow.workflow_run j on j.id = ended.workflow_id
 where j.org = $3 group by j.queue

-- name: pause
-- scope: org, in the key
-- Pause a queue: nothing is claimed from it from now on.
insert into windlass.queue as q (name, paused, paused_at) values ($1, true, windlass.now())
on conflict (name) do update
   set paused = true, updated_at = windlass.now(), paused_at = case when q.paused then q.paused_at else windlass.now() end

-- name: resume
-- scope: org, in the key
-- Resume a paused queue.
update windlass.queue set paused = false, resumed_at = windlass.now(), updated_at = windlass.now() where name = $1 and paused

-- name: configure
-- scope: org, in the key
-- Set the maximum depth of a queue ($2) and the configuration that an API keeps for it ($3).
insert into windlass.queue as q (name, max_depth, config) values ($1, $2, $3::jsonb)
on conflict (name) do update set max_depth = excluded.max_depth, config = excluded.config, updated_at = windlass.now()

-- name: bounds
-- scope: org
-- Return the queues of an org that have a maximum depth.
select name, max_depth, config from windlass.queue where max_depth is not null and org = $1

-- name: config
-- scope: org, in the key
-- Return the settings of a queue.
select max_depth, config from windlass.queue where name = $1

-- name: depth
-- scope: org, in the key
-- Count the pending jobs of a queue, due or not, up to $2, by a loose index scan over its lanes.
with recursive lane as (
  (select j.queue, j.type, j.priority, j.alone from workflow.workflow_run j
    where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = $1
    order by j.queue, j.type, j.priority, j.alone limit 1)
  union all
  select next.* from lane cross join lateral (
    select j.queue, j.type, j.priority, j.alone from workflow.workflow_run j
     where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue
       and (j.type, j.priority, j.alone) > (lane.type, lane.priority, lane.alone)
     order by j.type, j.priority, j.alone limit 1) as next)
select least($2, (
  select count(*) from (
    select from lane cross join lateral (
      select from workflow.workflow_run j
       where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue and j.type = lane.type
         and j.priority = lane.priority and j.alone = lane.alone limit $2) as waiting limit $2) as due)
  + (select count(*) from (
    select from workflow.workflow_run j where j.status = 'pending' and not j.due and j.queue = $1 limit $2) as later))::bigint

-- name: state_counts
-- scope: org, in the key
-- Count the jobs of a queue by state, up to $2 of each kind. Of finished jobs only the latest $2 of each type and status are
-- read, so that the cost does not grow with the history.
select coalesce((select sum(n) from windlass.lanes(array[$1]) as lane cross join lateral (
         select count(*) as n from (
           select from workflow.workflow_run j
            where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue and j.type = lane.type
              and j.priority = lane.priority and j.alone = lane.alone limit $2) as waiting) as counted), 0)::bigint as available,
       waiting.*, held.active, ended.*
  from (select count(*) filter (where run_at < 'infinity' and attempt + lost = 0) as scheduled,
               count(*) filter (where run_at < 'infinity' and attempt + lost > 0) as retryable,
               count(*) filter (where run_at = 'infinity') as pending
          from (select run_at, attempt, lost from workflow.workflow_run
                 where status = 'pending' and not due and queue = $1 and deleted_at is null limit $2) as few) as waiting,
       (select count(*) as active from workflow.workflow_run where status = 'leased' and queue = $1 and deleted_at is null) as held,
       (select count(*) filter (where status = 'succeeded') as completed, count(*) filter (where status = 'cancelled') as cancelled,
               count(*) filter (where status = 'failed') as discarded,
               count(*) filter (where status = 'succeeded' and updated_at > windlass.now() - interval '1 hour') as completed_last_hour,
               count(*) filter (where status = 'failed' and updated_at > windlass.now() - interval '1 hour') as failed_last_hour
          from windlass.finished kind cross join lateral (
            select j.queue, j.updated_at, j.deleted_at from workflow.workflow_run j
             where j.status in ('succeeded', 'failed', 'cancelled') and j.type = kind.type and j.status = kind.status
             order by j.seq desc limit $2) as j
         where j.queue = $1 and j.deleted_at is null) as ended

-- name: ends
-- scope: org
-- Count the jobs of an org that succeeded and failed in the last minute, from the last $1 events.
select count(*) filter (where line.event_type = 'succeeded') as succeeded, count(*) filter (where line.event_type = 'failed') as failed
  from (select workflow_id, event_type, created_at from workflow.workflow_event order by xid desc, id desc limit $1) as line
  join workflow.workflow_run j on j.id = line.workflow_id
 where line.created_at > windlass.now() - interval '1 minute' and line.event_type in ('succeeded', 'failed') and j.org = $2

-- name: rate_limit
-- scope: org, in the key
-- Return a rate limit, its remaining tokens and the number of leased jobs under it.
select r.key, r.per_period, r.period, r.concurrency,
       least(greatest(r.per_period, 1), r.tokens + r.per_period * extract(epoch from windlass.now() - r.at) / extract(epoch from r.period)) as left_,
       (select count(*) from workflow.workflow_run j where j.rate_key = r.key and j.status = 'leased') as active
  from windlass.rate r where r.key = $1

-- name: rate_limits
-- scope: org, in the key
-- List the rate limits of an org ($1 is its name and a slash), by key.
select r.key, r.per_period, r.period, r.concurrency,
       least(greatest(r.per_period, 1), r.tokens + r.per_period * extract(epoch from windlass.now() - r.at) / extract(epoch from r.period)) as left_,
       (select count(*) from workflow.workflow_run j where j.rate_key = r.key and j.status = 'leased') as active
  from windlass.rate r where starts_with(r.key, $1) order by r.key limit $2 offset $3

-- name: wake_rate_limited
-- scope: global
-- Make jobs that wait for a rate limit due again if the limit admits them. Needed when a limit was raised or deleted,
-- when a job that was made due is in a queue without workers, or when a wake-up was missed. One probe per key with
-- waiting jobs. Returns the queues of the jobs.
with recursive waiting as (
  (select key from windlass.rate_line where called_at is null order by key limit 1)
  union all
  select (select r.key from windlass.rate_line r where r.called_at is null and r.key > waiting.key order by r.key limit 1)
    from waiting where waiting.key is not null)
select windlass.rate_call(w.key, windlass.rate_room(r, 0))
  from waiting w left join windlass.rate r on r.key = w.key
 where w.key is not null and windlass.rate_room(r, 0) > 0

-- name: forget_rate_limited
-- scope: global
-- Delete the `rate_line` rows of jobs that were cancelled, deleted or claimed by plain SQL.
delete from windlass.rate_line r
 where not exists (select from workflow.workflow_run j where j.id = r.job_id and j.status = 'pending' and j.deleted_at is null)

-- name: prune_rate_limits
-- scope: global
-- Delete rate limits that were not used since the cutoff, unless a pending or leased job names them.
delete from windlass.rate
 where at < windlass.now() - $1::interval
   and key <> all(array(select distinct rate_key from workflow.workflow_run
                         where status = 'pending' and rate_key is not null))
   and key <> all(array(select distinct rate_key from workflow.workflow_run
                         where status = 'leased' and rate_key is not null))
