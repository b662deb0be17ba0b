-- Keys of the API. Only keyed hashes of their secrets are stored.

-- name: insert
-- scope: org
-- Insert a key. No row is returned if the org has a valid key of this name.
insert into windlass.api_key (id, org, hash, name, role, scopes, label, created_by, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, windlass.now() + $9::interval)
on conflict (org, name) where revoked_at is null do nothing
returning id, org, name, role, scopes, label, created_at, created_by, expires_at, last_used_at, revoked_at, old_until

-- name: list
-- scope: org
-- List at most $2 keys of an org, newest first, before the key $3.
select id, org, name, role, scopes, label, created_at, created_by, expires_at, last_used_at, revoked_at, old_until
  from windlass.api_key
 where org = $1 and ($3::text is null
   or (created_at, id) < (select k.created_at, k.id from windlass.api_key k where k.id = $3 and k.org = $1))
 order by created_at desc, id desc limit $2

-- name: lock
-- scope: org
-- Lock a key of an org, given by its id, or by the name of a valid one, and return it.
select id, org, name, role, scopes, label, created_at, created_by, expires_at, last_used_at, revoked_at, old_until
  from windlass.api_key
 where org = $1 and (id = $2 or (name = $2 and revoked_at is null)) order by id = $2 desc limit 1 for update

-- name: revoke
-- scope: owned
-- Revoke a key permanently. A key that is already revoked keeps its time of revocation.
update windlass.api_key set revoked_at = coalesce(revoked_at, windlass.now()), old_hash = null, old_until = null where id = $1
returning id, org, name, role, scopes, label, created_at, created_by, expires_at, last_used_at, revoked_at, old_until

-- name: rotate
-- scope: owned
-- Replace the secret of a key. The previous secret stays valid for $3, or becomes invalid at once if that is null.
update windlass.api_key set hash = $2, old_hash = case when $3::interval is null then null else hash end,
       old_until = windlass.now() + $3::interval
 where id = $1
returning id, org, name, role, scopes, label, created_at, created_by, expires_at, last_used_at, revoked_at, old_until

-- name: find
-- scope: global
-- Return the data needed to verify a key, with the time of the database.
select k.id, k.org, k.hash, k.name, k.scopes, k.label, k.expires_at, k.revoked_at is not null as revoked, k.old_hash, k.old_until,
       o.disabled_at is not null as disabled, windlass.now() as now
  from windlass.api_key k join windlass.org o on o.name = k.org
 where k.id = $1

-- name: used
-- scope: global
-- Record that these keys were used, each at most once a minute.
update windlass.api_key set last_used_at = windlass.now()
 where id in (select id from windlass.api_key
               where id = any($1::text[]) and (last_used_at is null or last_used_at < windlass.now() - interval '1 minute')
               order by id for update)
