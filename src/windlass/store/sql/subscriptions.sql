-- Who is told of events, and up to where they were told.

-- name: insert
-- A new subscription; it hears of what happens from now on.
insert into windlass.subscription (id, org, url, events, queues, types, metadata, active, secret)
values ($1, $2, $3, $4, coalesce($5::text[], '{}'), coalesce($6::text[], '{}'), $7::jsonb, $8, $9)
returning id, url, events, queues, types, metadata, active, rotation, rotated_at, delivered_at, off_reason, created_at, updated_at

-- name: list
-- Of one org, oldest first.
select id, url, events, queues, types, metadata, active, rotation, rotated_at, delivered_at, off_reason, created_at, updated_at
  from windlass.subscription where org = $1 order by id limit $2 offset $3

-- name: count
-- How many an org has.
select count(*) from windlass.subscription where org = $1

-- name: get
-- One of them.
select id, url, events, queues, types, metadata, active, rotation, rotated_at, delivered_at, off_reason, created_at, updated_at
  from windlass.subscription where id = $1 and org = $2

-- name: change
-- What is null stays. Switched on again it hears of what happens from now on, and its failures are forgotten.
update windlass.subscription s
   set url = coalesce($3, url), events = coalesce($4, events), queues = coalesce($5, queues), types = coalesce($6, types),
       metadata = coalesce($7::jsonb, metadata), active = coalesce($8, active),
       since = case when $8 and not s.active then windlass.now() else since end,
       failures = case when $8 then 0 else failures end, off_reason = case when $8 then null else off_reason end,
       updated_at = windlass.now()
 where id = $1 and org = $2
returning id, url, events, queues, types, metadata, active, rotation, rotated_at, delivered_at, off_reason, created_at, updated_at

-- name: rotate
-- Another secret; the one before signs for a while too.
update windlass.subscription
   set old_secret = secret, secret = $3, rotation = rotation + 1, rotated_at = windlass.now(), updated_at = windlass.now()
 where id = $1 and org = $2
returning id, url, events, queues, types, metadata, active, rotation, rotated_at, delivered_at, off_reason, created_at, updated_at

-- name: remove
-- Gone; what is still to be delivered is not.
delete from windlass.subscription where id = $1 and org = $2 returning true

-- name: target
-- Where a delivery goes, and what signs it. Nothing back: nobody wants it any more, or job $3 belongs to another org.
select url, secret, old_secret, rotation, rotated_at is not null and rotated_at > windlass.now() - $2::interval as overlaps,
       windlass.now() as now
  from windlass.subscription s where s.id = $1 and s.active
   and ($3::uuid is null or s.org = (select j.org from workflow.workflow_run j where j.id = $3))

-- name: delivered
-- It works. Written now and then: a busy subscriber must not make its row the busiest.
update windlass.subscription set failures = 0, delivered_at = windlass.now()
 where id = $1 and (failures > 0 or delivered_at is null or delivered_at < windlass.now() - interval '1 minute')

-- name: given_up
-- A delivery was given up; after $2 in a row, or at once for a reason of its own, nobody is told any more.
update windlass.subscription
   set failures = failures + 1, active = active and $3::text is null and failures + 1 < $2,
       off_reason = case when active and ($3::text is not null or failures + 1 >= $2)
                         then coalesce($3, failures + 1 || ' deliveries in a row were given up') else off_reason end,
       updated_at = windlass.now()
 where id = $1

-- name: place
-- Where the reader is, if anybody listens.
select place from windlass.bookmark
 where reader = 'subscriptions' and exists (select from windlass.subscription where active)

-- name: interests
-- Who wants what.
select id, org, events, queues, types, since from windlass.subscription where active

-- name: begin_at
-- Whoever is the first to listen begins here: what came before is read by nobody.
insert into windlass.bookmark (reader, place) values ('subscriptions', $1)
on conflict (reader) do update set place = excluded.place
 where not exists (select from windlass.subscription where active and id <> $2)

-- name: take_place
-- The same, to go on from there. Nothing back: another process is at it.
select place from windlass.bookmark where reader = 'subscriptions' for update skip locked

-- name: keep_place
-- Where it is now.
update windlass.bookmark set place = $1 where reader = 'subscriptions'
