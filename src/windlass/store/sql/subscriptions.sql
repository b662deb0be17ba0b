-- Subscriptions to events, and the position of the process that reads events for them.

-- name: insert
-- scope: org
-- Insert a subscription. It receives events from now on.
insert into windlass.subscription (id, org, url, events, queues, types, metadata, active)
values ($1, $2, $3, $4, coalesce($5::text[], '{}'), coalesce($6::text[], '{}'), $7::jsonb, $8)
returning id, url, events, queues, types, metadata, active, rotation, rotated_at, delivered_at, off_reason, created_at, updated_at

-- name: list
-- scope: org
-- List the subscriptions of an org, oldest first.
select id, url, events, queues, types, metadata, active, rotation, rotated_at, delivered_at, off_reason, created_at, updated_at
  from windlass.subscription where org = $1 order by id limit $2 offset $3

-- name: count
-- scope: org
-- Count the subscriptions of an org.
select count(*) from windlass.subscription where org = $1

-- name: get
-- scope: org
-- Return one subscription.
select id, url, events, queues, types, metadata, active, rotation, rotated_at, delivered_at, off_reason, created_at, updated_at
  from windlass.subscription where id = $1 and org = $2

-- name: change
-- scope: org
-- Update a subscription. Null arguments leave their columns unchanged. A subscription that is activated again receives events
-- from now on, and its failures are reset.
update windlass.subscription s
   set url = coalesce($3, url), events = coalesce($4, events), queues = coalesce($5, queues), types = coalesce($6, types),
       metadata = coalesce($7::jsonb, metadata), active = coalesce($8, active),
       since = case when $8 and not s.active then windlass.now() else since end,
       failures = case when $8 then 0 else failures end, off_reason = case when $8 then null else off_reason end,
       updated_at = windlass.now()
 where id = $1 and org = $2
returning id, url, events, queues, types, metadata, active, rotation, rotated_at, delivered_at, off_reason, created_at, updated_at

-- name: rotate
-- scope: org
-- Increment the number of the secret, which selects a new one. The previous secret is still used for signing for a
-- while.
update windlass.subscription
   set rotation = rotation + 1, rotated_at = windlass.now(), updated_at = windlass.now()
 where id = $1 and org = $2
returning id, url, events, queues, types, metadata, active, rotation, rotated_at, delivered_at, off_reason, created_at, updated_at

-- name: remove
-- scope: org
-- Delete a subscription. Pending deliveries are not sent.
delete from windlass.subscription where id = $1 and org = $2 returning true

-- name: target
-- scope: global
-- Return the URL of a delivery, and which secrets sign it. Returns no row if the subscription is inactive or gone, or if job $3 belongs to
-- another org.
select org, url, rotation, rotated_at is not null and rotated_at > windlass.now() - $2::interval as overlaps, windlass.now() as now
  from windlass.subscription s where s.id = $1 and s.active
   and ($3::uuid is null or s.org = (select j.org from workflow.workflow_run j where j.id = $3))

-- name: delivered
-- scope: global
-- Record a successful delivery. Written at most once a minute unless there were failures, so that the row of a busy subscription
-- is not updated for each delivery.
update windlass.subscription set failures = 0, delivered_at = windlass.now()
 where id = $1 and (failures > 0 or delivered_at is null or delivered_at < windlass.now() - interval '1 minute')

-- name: delivery_failed
-- scope: global
-- Record that a delivery failed for good. After $2 in a row, or at once if a reason is given, the subscription is deactivated.
update windlass.subscription
   set failures = failures + 1, active = active and $3::text is null and failures + 1 < $2,
       off_reason = case when active and ($3::text is not null or failures + 1 >= $2)
                         then coalesce($3, failures + 1 || ' consecutive deliveries failed') else off_reason end,
       updated_at = windlass.now()
 where id = $1

-- name: place
-- scope: global
-- Return the position of the reader, if there is any active subscription.
select place from windlass.bookmark
 where reader = 'subscriptions' and exists (select from windlass.subscription where active)

-- name: interests
-- scope: global
-- Return the filters of all active subscriptions.
select id, org, events, queues, types, since from windlass.subscription where active

-- name: begin_at
-- scope: global
-- Set the position of the reader if there is no other active subscription: earlier events need not be read.
insert into windlass.bookmark (reader, place) values ('subscriptions', $1)
on conflict (reader) do update set place = excluded.place
 where not exists (select from windlass.subscription where active and id <> $2)

-- name: lock_cursor
-- scope: global
-- Lock and return the position of the reader, to continue from it. Returns no row if another process holds the lock.
select place from windlass.bookmark where reader = 'subscriptions' for update skip locked

-- name: save_cursor
-- scope: global
-- Store the position of the reader.
update windlass.bookmark set place = $1 where reader = 'subscriptions'
