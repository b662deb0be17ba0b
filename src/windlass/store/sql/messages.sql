-- Messages, and the router that delivers them to waiters: see 0027_messages.sql.

-- name: publish
-- scope: org
-- Store an event. Returns false if the org has already sent a message with this id.
select windlass.send($1, $2, $3, false, $4::jsonb, $5, $6)

-- name: signal
-- scope: org
-- Store a signal for a run or a job. Returns the outcome: see `send_signal` in 0027_messages.sql.
select windlass.send_signal($1, $2, $3, $4::jsonb, $5, $6, $7)

-- name: unrouted
-- scope: global
-- Return the names and keys of messages that have no number yet, each once, and those of new waiters. Addresses in
-- quarantine are left out until their next retry. The recursion reads one row of the index for each name and key,
-- however many messages it has.
with recursive aside as (select key from windlass.quarantine where kind = 'message' and retry_at > windlass.now()),
sent as (
  (select org, name, key, is_signal, 1 as n from windlass.message where seq is null order by org, name, key, is_signal limit 1)
  union all
  select m.org, m.name, m.key, m.is_signal, sent.n + 1 from sent cross join lateral (
    select * from windlass.message m
     where m.seq is null and (m.org, m.name, m.key, m.is_signal) > (sent.org, sent.name, sent.key, sent.is_signal)
     order by m.org, m.name, m.key, m.is_signal limit 1) as m
   where sent.n < $1)
select org, name, key, is_signal from sent where org || '/' || name || '/' || key <> all(array(select key from aside))
union
(select org, name, key, is_signal from windlass.waiter
  where state = 'new' and org || '/' || name || '/' || key <> all(array(select key from aside)) order by id limit $1)

-- name: become_router
-- scope: global
-- Take the lock of the router until the end of the transaction. Returns false if another transaction holds it. Only one
-- transaction routes at any time: it matches messages with waiters that are committed.
select pg_try_advisory_xact_lock(hashtextextended('windlass.messages', 0))

-- name: number
-- scope: global
-- Number the messages with these names and keys, up to $5 of each. The numbers follow the order of the commits. Each event also
-- requests a run of every workflow that it triggers.
with next as (
  select id, nextval('windlass.message_order') as seq from (
    select m.id from unnest($1::text[], $2::text[], $3::text[], $4::boolean[]) as k(org, name, key, is_signal) cross join lateral (
      select id from windlass.message m
       where m.org = k.org and m.name = k.name and m.key = k.key and m.is_signal = k.is_signal and m.seq is null
       order by m.id limit $5) as m
     order by m.id) as unrouted),
numbered as (
  update windlass.message m set seq = next.seq from next where m.id = next.id
  returning m.org, m.name, m.key, m.is_signal, m.payload, m.sender_id, m.seq)
insert into windlass.start_request (id, org, workflow, input, idempotency_key, headers, sender)
select windlass.new_id(), n.org, w.name, n.payload, 'event/' || n.seq || '/' || w.id,
       jsonb_strip_nulls(jsonb_build_object('event-name', n.name, 'event-key', n.key, 'event-id', n.sender_id)), 'event'
  from numbered n join windlass.workflow w on w.org = n.org and w.event = n.name and w.deleted_at is null
 where not n.is_signal and w.enabled order by n.seq, w.id

-- name: close_ended
-- scope: global
-- Close the waiters with these names and keys whose jobs have ended or were started over: they must not receive
-- messages that other waiters wait for. Waiters of steps are closed by `close_steps` in waiters.sql.
update windlass.waiter w set state = 'closed'
  from (select w.id from unnest($1::text[], $2::text[], $3::text[], $4::boolean[]) as k(org, name, key, is_signal)
          join windlass.waiter w on w.org = k.org and w.name = k.name and w.key = k.key and w.is_signal = k.is_signal
                                    and w.state in ('new', 'open') and w.job_id is not null
         where not exists (select from only workflow.workflow_run j
                            where j.id = w.job_id and j.status in ('pending', 'leased') and j.epoch = w.round and j.deleted_at is null)
         order by w.id for update of w) as ended
 where w.id = ended.id

-- name: match_events
-- scope: global
-- Deliver to each waiter for these names and keys the events that it has not received yet, up to the number that it
-- waits for.
with target as (
  select w.id, w.org, w.name, w.key, w.seq, w.since, w.state, w.count - jsonb_array_length(w.received) as missing
    from unnest($1::text[], $2::text[], $3::text[]) as k(org, name, key)
    join windlass.waiter w on w.org = k.org and w.name = k.name and w.key = k.key and w.state in ('new', 'open')
   where not w.is_signal order by w.id for update of w),
matched as (
  select t.id, t.state, t.missing, count(m.seq) as count, max(m.seq) as seq,
         coalesce(jsonb_agg(m.payload order by m.seq) filter (where m.seq is not null), '[]') as payloads
    from target t left join lateral (
      select m.seq, m.payload from windlass.message m
       where m.org = t.org and m.name = t.name and m.key = t.key and not m.is_signal and m.seq > t.seq and m.created_at >= t.since
       order by m.seq limit t.missing) as m on true
   group by t.id, t.state, t.missing)
update windlass.waiter w
   set received = w.received || g.payloads, state = case when g.count = g.missing then 'received' else 'open' end,
       seq = case when g.count = g.missing then g.seq else coalesce(pg_sequence_last_value('windlass.message_order'), 0) end
  from matched g where w.id = g.id and (g.count > 0 or g.state = 'new')

-- name: match_signals
-- scope: global
-- Deliver the signals at these addresses that no waiter has received to the waiters there, the oldest signal to the
-- oldest waiter, each once: a waiter skips as many signals as the waiters before it take.
with target as (
  select w.id, w.org, w.name, w.key, w.state, w.count - jsonb_array_length(w.received) as missing
    from unnest($1::text[], $2::text[], $3::text[]) as k(org, name, key)
    join windlass.waiter w on w.org = k.org and w.name = k.name and w.key = k.key and w.state in ('new', 'open')
   where w.is_signal order by w.id for update of w),
span as (select *, sum(missing) over (partition by org, name, key order by id) as last from target),
matched as (
  select s.id, s.state, s.missing, m.* from span s cross join lateral (
    select count(*) as count, max(m.seq) as seq, array_agg(m.id) as messages,
           coalesce(jsonb_agg(m.payload order by m.seq) filter (where m.seq is not null), '[]') as payloads
      from (select m.id, m.seq, m.payload from windlass.message m
             where m.org = s.org and m.name = s.name and m.key = s.key and m.is_signal and m.waiter_id is null and m.seq > 0
             order by m.seq offset s.last - s.missing limit s.missing) as m) as m),
consumed as (
  update windlass.message m set waiter_id = g.id from matched g cross join lateral unnest(g.messages) as taken(id) where m.id = taken.id)
update windlass.waiter w
   set received = w.received || g.payloads, state = case when g.count = g.missing then 'received' else 'open' end,
       seq = coalesce(g.seq, w.seq)
  from matched g where w.id = g.id and (g.count > 0 or g.state = 'new')

-- name: drop_events
-- scope: global
-- Delete the oldest events with these names and keys beyond the latest $4. All current waiters have received them.
delete from windlass.message where id = any(array(
  select m.id from unnest($1::text[], $2::text[], $3::text[]) as k(org, name, key) cross join lateral (
    select m.id from windlass.message m
     where m.org = k.org and m.name = k.name and m.key = k.key and not m.is_signal and m.seq is not null
     order by m.seq desc offset $4) as m))

-- name: prune
-- scope: global
-- Delete a batch of routed messages that were sent before the cutoff.
with gone as (
  delete from windlass.message where id = any(array(
    select id from windlass.message where created_at < windlass.now() - $1::interval and seq is not null
     order by created_at limit $2 for update skip locked))
  returning 1)
select count(*) from gone
