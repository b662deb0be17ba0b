-- Limits under which jobs are handed out: for people who look.

-- name: get
-- A limit and how it stands.
select r.key, r.per_period, r.period, r.concurrency,
       least(greatest(r.per_period, 1), r.tokens + r.per_period * extract(epoch from windlass.now() - r.at) / extract(epoch from r.period)) as left_,
       (select count(*) from workflow.workflow_run j where j.rate_key = r.key and j.status = 'leased') as active
  from windlass.rate r where r.key = $1

-- name: list
-- Those of an org ($1: its name and a slash), by key.
select r.key, r.per_period, r.period, r.concurrency,
       least(greatest(r.per_period, 1), r.tokens + r.per_period * extract(epoch from windlass.now() - r.at) / extract(epoch from r.period)) as left_,
       (select count(*) from workflow.workflow_run j where j.rate_key = r.key and j.status = 'leased') as active
  from windlass.rate r where starts_with(r.key, $1) order by r.key limit $2 offset $3
