-- Rate limits: queries for inspection and upkeep.

-- name: get
-- Return a rate limit, its remaining tokens and the number of leased jobs under it.
select r.key, r.per_period, r.period, r.concurrency,
       least(greatest(r.per_period, 1), r.tokens + r.per_period * extract(epoch from windlass.now() - r.at) / extract(epoch from r.period)) as left_,
       (select count(*) from workflow.workflow_run j where j.rate_key = r.key and j.status = 'leased') as active
  from windlass.rate r where r.key = $1

-- name: list
-- List the rate limits of an org ($1 is its name and a slash), by key.
select r.key, r.per_period, r.period, r.concurrency,
       least(greatest(r.per_period, 1), r.tokens + r.per_period * extract(epoch from windlass.now() - r.at) / extract(epoch from r.period)) as left_,
       (select count(*) from workflow.workflow_run j where j.rate_key = r.key and j.status = 'leased') as active
  from windlass.rate r where starts_with(r.key, $1) order by r.key limit $2 offset $3

-- name: call_waiting
-- Make jobs that wait for a rate limit due again where there is room. Needed when a limit was raised or deleted, when a job that
-- was made due is in a queue without workers, or when a wake-up was missed. One probe per key with waiting jobs. Returns the
-- queues of the jobs.
with recursive waiting as (
  (select key from windlass.rate_line where called_at is null order by key limit 1)
  union all
  select (select r.key from windlass.rate_line r where r.called_at is null and r.key > waiting.key order by r.key limit 1)
    from waiting where waiting.key is not null)
select windlass.rate_call(w.key, windlass.rate_room(r, 0))
  from waiting w left join windlass.rate r on r.key = w.key
 where w.key is not null and windlass.rate_room(r, 0) > 0

-- name: forget_waiting
-- Delete the waiting entries of jobs that were cancelled, deleted or claimed by plain SQL.
delete from windlass.rate_line r
 where not exists (select from workflow.workflow_run j where j.id = r.job_id and j.status = 'pending' and j.deleted_at is null)

-- name: prune
-- Delete rate limits that were not used since the cutoff, unless a pending or leased job names them.
delete from windlass.rate
 where at < windlass.now() - $1::interval
   and key <> all(array(select distinct rate_key from workflow.workflow_run
                         where status = 'pending' and rate_key is not null))
   and key <> all(array(select distinct rate_key from workflow.workflow_run
                         where status = 'leased' and rate_key is not null))
