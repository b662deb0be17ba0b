-- Hooks: callback addresses of runs. They are looked up without a lock and changed under the lock of their run.

-- name: insert
-- scope: owned
-- Insert the addresses of runs that start. An existing row is kept, because it may already have received a callback.
insert into windlass.hook (run_id, step, token_hash) select * from unnest($1::uuid[], $2::int[], $3::bytea[])
on conflict do nothing

-- name: find
-- scope: global
-- Return the run and step of this address.
select run_id, step from windlass.hook where token_hash = $1

-- name: state
-- scope: global
-- Return whether this address has received a callback, and the states of its run and step. Read without a lock, before the body
-- of the callback is read.
select h.received_at is not null, r.state, substr(r.steps, h.step + 1, 1)
  from windlass.hook h join windlass.run r on r.id = h.run_id
 where h.token_hash = $1

-- name: listen
-- scope: owned
-- Return which of these steps, which start to wait now, have already received their callback.
select h.run_id, h.step from unnest($1::uuid[], $2::int[]) as w(run_id, step)
  join windlass.hook h on h.run_id = w.run_id and h.step = w.step
 where h.received_at is not null

-- name: reset
-- scope: owned
-- Prepare these steps to wait again: delete the callback of the earlier round and replace the address.
update windlass.hook h set received_at = null, body = null, headers = null, round = w.round, token_hash = w.token_hash
  from unnest($1::uuid[], $2::int[], $3::int[], $4::bytea[]) as w(run_id, step, round, token_hash)
 where h.run_id = w.run_id and h.step = w.step

-- name: rounds
-- scope: owned
-- Return the rounds in which these addresses were created.
select h.run_id, h.step, h.round from unnest($1::uuid[], $2::int[]) as w(run_id, step)
  join windlass.hook h on h.run_id = w.run_id and h.step = w.step

-- name: receive
-- scope: owned
-- Store a callback. A second one changes nothing and returns no row.
update windlass.hook set received_at = windlass.now(), body = $3, headers = $4,
       seen_ids = case when $5::text is null then seen_ids else array_append(seen_ids, $5) end
 where run_id = $1 and step = $2 and received_at is null
returning run_id

-- name: received
-- scope: owned
-- Return whether the callback has arrived, or whether a request with this id was accepted in an earlier round.
select received_at is not null or $3::text is not null and $3 = any(coalesce(seen_ids, '{}'))
  from windlass.hook where run_id = $1 and step = $2

-- name: bodies
-- scope: owned
-- Return the bodies and headers of the callbacks that arrived.
select h.run_id, h.step, h.body, h.headers from unnest($1::uuid[], $2::int[]) as w(run_id, step)
  join windlass.hook h on h.run_id = w.run_id and h.step = w.step
 where h.received_at is not null
