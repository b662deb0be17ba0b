-- Where requests from outside reach this installation, as its servers record it.

-- name: record
-- A server says where it is reached. What nobody has repeated for long is forgotten.
with gone as (
  delete from windlass.public_url where recorded_at < windlass.now() - interval '30 days' and url <> $1)
insert into windlass.public_url (url, configured) values ($1, $2)
on conflict (url) do update set configured = excluded.configured, recorded_at = windlass.now()

-- name: list
-- The best first: one that a server repeated lately, then one that somebody configured, then the latest.
select url, configured, recorded_at > windlass.now() - $1::interval as live from windlass.public_url
 order by recorded_at > windlass.now() - $1::interval desc, configured desc, recorded_at desc limit 10

-- name: hooks_in_use
-- Is there anything that is called from outside: a step that waits, or a workflow with an address?
select exists (select from windlass.hook where received_at is null)
    or exists (select from windlass.workflow where token_hash is not null and deleted_at is null)
