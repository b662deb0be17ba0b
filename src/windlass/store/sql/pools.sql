-- Pools: where steps with `runs_on` run.

-- name: offer
-- scope: global
-- Record that a process offers a pool.
insert into windlass.pool (name, launcher, max_parallel, image, seen_at) values ($1, $2, $3, $4, windlass.now())
on conflict (name) do update
   set launcher = excluded.launcher, max_parallel = excluded.max_parallel, image = excluded.image, seen_at = excluded.seen_at

-- name: report
-- scope: global
-- Record the state of a pool, by the process that launches its jobs.
update windlass.pool set holder = $2, problem = $3, seen_at = windlass.now() where name = $1

-- name: list
-- scope: global
-- Return the pools by name, and how long ago each was seen.
select name, launcher, max_parallel, image, holder, problem, seen_at, windlass.now() - seen_at as silence
  from windlass.pool where ($1::text is null or name = $1) order by name

-- name: forget
-- scope: global
-- Remove a pool that no process offers any more.
delete from windlass.pool where name = $1 returning name
