-- Pools: where steps with `runs_on` run.

-- name: offer
-- scope: global
-- Record that a process offers a pool.
insert into windlass.pool (name, launcher, max_parallel, image, seen_at) values ($1, $2, $3, $4, windlass.now())
on conflict (name) do update
   set launcher = excluded.launcher, max_parallel = excluded.max_parallel, image = excluded.image, seen_at = excluded.seen_at

-- name: report
-- scope: global
-- Record the state of a pool, as reported by the process that launches its jobs.
update windlass.pool set holder = $2, problem = $3, seen_at = windlass.now() where name = $1

-- name: identity
-- scope: global
-- Return an identifier that distinguishes this database from all others, also from one restored from its dump.
select system_identifier || '/' || (select oid from pg_database where datname = current_database()) from pg_control_system()

-- name: names
-- scope: global
-- Return the names of the pools.
select name from windlass.pool order by name

-- name: list
-- scope: org
-- List the pools, or pool $1, with how long ago each was seen, and how many of their jobs of org $2 (null: of all orgs) are due and leased.
-- Due jobs are counted up to $3; $4 is the prefix of the queues of pools. The cost grows with the number of lanes and leased jobs.
with queue as (
  select p.name as pool, case when o.name = 'default' then '' else o.name || '/' end || $4 || p.name as name
    from windlass.pool p cross join windlass.org o
   where ($1::text is null or p.name = $1) and ($2::text is null or o.name = $2)),
due as (
  select queue.pool, sum(counted.n) as n
    from windlass.lanes(array(select name from queue)) as lane
    join queue on queue.name = lane.queue
   cross join lateral (
     select count(*) as n from (
       select from workflow.workflow_run j
        where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue and j.type = lane.type
          and j.priority = lane.priority and j.alone = lane.alone limit $3) as waiting) as counted
   group by queue.pool),
held as (
  select queue.pool, sum(leased.n) as n
    from (select j.queue, count(*) as n from workflow.workflow_run j
           where j.status = 'leased' and ($2::text is null or j.org = $2) group by j.queue) as leased
    join queue on queue.name = leased.queue
   group by queue.pool)
select p.name, p.launcher, p.max_parallel, p.image, p.holder, p.problem, p.seen_at, windlass.now() - p.seen_at as silence,
       least(coalesce(due.n, 0), $3)::bigint as waiting, coalesce(held.n, 0)::bigint as running
  from windlass.pool p left join due on due.pool = p.name left join held on held.pool = p.name
 where $1::text is null or p.name = $1
 order by p.name

-- name: forget
-- scope: global
-- Remove a pool that no process has offered for the time $2.
delete from windlass.pool where name = $1 and seen_at < windlass.now() - $2::interval returning name
