-- Public URLs of this installation, as recorded by its servers.

-- name: record
-- scope: global
-- Record the public URL of a server. Deletes other URLs that were last recorded more than 30 days ago.
with gone as (
  delete from windlass.public_url where recorded_at < windlass.now() - interval '30 days' and url <> $1)
insert into windlass.public_url (url, configured) values ($1, $2)
on conflict (url) do update set configured = excluded.configured, recorded_at = windlass.now()

-- name: list
-- scope: global
-- List the URLs, best first: recently recorded, then configured, then latest.
select url, configured, recorded_at > windlass.now() - $1::interval as live from windlass.public_url
 order by recorded_at > windlass.now() - $1::interval desc, configured desc, recorded_at desc limit 10

-- name: hooks_in_use
-- scope: global
-- Return whether anything expects requests from outside: a waiting hook or a workflow with an address.
select exists (select from windlass.hook where received_at is null)
    or exists (select from windlass.workflow where token_hash is not null and deleted_at is null)
