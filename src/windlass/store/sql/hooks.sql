-- Hooks: callback addresses of runs. Found without a lock; changed under the lock of their run.

-- name: key
-- The key that tokens are made with.
select value from windlass.secret where name = 'hook'

-- name: insert
-- Addresses of runs that begin. One that exists is kept: a callback may have come.
insert into windlass.hook (run_id, step, token_hash) select * from unnest($1::uuid[], $2::int[], $3::bytea[])
on conflict do nothing

-- name: find
-- Whose address is this?
select run_id, step from windlass.hook where token_hash = $1

-- name: standing
-- What became of the step that this address is for; read without a lock, before the body of a callback.
select h.received_at is not null, r.state, substr(r.steps, h.step + 1, 1)
  from windlass.hook h join windlass.run r on r.id = h.run_id
 where h.token_hash = $1

-- name: listen
-- These steps wait now; which of them were called already?
select h.run_id, h.step from unnest($1::uuid[], $2::int[]) as w(run_id, step)
  join windlass.hook h on h.run_id = w.run_id and h.step = w.step
 where h.received_at is not null

-- name: reset
-- These steps wait again: what came in an earlier round is forgotten, and its address is replaced.
update windlass.hook h set received_at = null, body = null, headers = null, round = w.round, token_hash = w.token_hash
  from unnest($1::uuid[], $2::int[], $3::int[], $4::bytea[]) as w(run_id, step, round, token_hash)
 where h.run_id = w.run_id and h.step = w.step

-- name: rounds
-- The rounds in which these addresses were made.
select h.run_id, h.step, h.round from unnest($1::uuid[], $2::int[]) as w(run_id, step)
  join windlass.hook h on h.run_id = w.run_id and h.step = w.step

-- name: receive
-- Keep a callback; the second one changes nothing.
update windlass.hook set received_at = windlass.now(), body = $3, headers = $4,
       seen_ids = case when $5::text is null then seen_ids else array_append(seen_ids, $5) end
 where run_id = $1 and step = $2 and received_at is null
returning run_id

-- name: received
-- Is it there already, or was a request with this id taken in an earlier round?
select received_at is not null or $3::text is not null and $3 = any(coalesce(seen_ids, '{}'))
  from windlass.hook where run_id = $1 and step = $2

-- name: bodies
-- What came.
select h.run_id, h.step, h.body, h.headers from unnest($1::uuid[], $2::int[]) as w(run_id, step)
  join windlass.hook h on h.run_id = w.run_id and h.step = w.step
 where h.received_at is not null
