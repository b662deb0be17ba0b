-- Browser sessions, and the identities of people who log in with OpenID Connect. Only hashes of the cookies are stored.

-- name: identify
-- scope: global
-- Insert a person, or update the address and the name, and return the id. The address is null unless it is verified.
insert into windlass.identity as i (id, issuer, subject, email, name) values ($1, $2, $3, $4, $5)
on conflict (issuer, subject) do update set email = excluded.email, name = excluded.name, seen_at = windlass.now()
returning i.id

-- name: insert
-- scope: global
-- Insert a session that ends after $5.
insert into windlass.session (hash, identity_id, key_id, org, expires_at) values ($1, $2, $3, $4, windlass.now() + $5::interval)

-- name: find
-- scope: global
-- Return a session that has not ended, with its person or its key and the state of the key and its org.
select s.hash, s.org, i.id as identity_id, i.email, k.id as key_id, k.name as key_name, k.scopes, k.role, k.label,
       k.revoked_at is not null or k.expires_at <= windlass.now() as invalid, o.disabled_at is not null as disabled,
       s.seen_at < windlass.now() - interval '1 minute' as stale
  from windlass.session s
  left join windlass.identity i on i.id = s.identity_id
  left join windlass.api_key k on k.id = s.key_id
  left join windlass.org o on o.name = s.org
 where s.hash = any($1::bytea[]) and s.expires_at > windlass.now()

-- name: extend
-- scope: global
-- Extend a session that is used: it ends $2 from now.
update windlass.session set seen_at = windlass.now(), expires_at = windlass.now() + $2::interval
 where hash = $1 and expires_at > windlass.now()

-- name: choose_org
-- scope: global
-- Set the org that a session acts for.
update windlass.session set org = $2 where hash = $1

-- name: remove
-- scope: global
-- End sessions.
delete from windlass.session where hash = any($1::bytea[])

-- name: prune
-- scope: global
-- Remove sessions that have ended.
delete from windlass.session where expires_at <= windlass.now()
