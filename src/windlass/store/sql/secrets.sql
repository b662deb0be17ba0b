-- Sealed values: secrets of orgs, the data keys they are sealed with, and the keys of the installation.

-- name: lock
-- scope: org, in the key
-- Serialize changes of the secrets of an org.
select pg_advisory_xact_lock(hashtextextended('windlass.secret/' || $1, 0))

-- name: find
-- scope: global
-- Return the sealed values of these names of these orgs, each with its data key.
select s.org, s.name, s.version, s.ciphertext, s.data_key_id, k.wrapped, k.master_key
  from unnest($1::text[], $2::text[]) as w(org, name)
  join windlass.secret s on s.org = w.org and s.name = w.name
  join windlass.data_key k on k.id = s.data_key_id

-- name: of_org
-- scope: org
-- Return all sealed values of an org, to seal them again with another data key.
select s.org, s.name, s.version, s.ciphertext, s.data_key_id, k.wrapped, k.master_key
  from windlass.secret s join windlass.data_key k on k.id = s.data_key_id
 where s.org = $1 order by s.name

-- name: version
-- scope: org
-- Return the version of a secret, if there is one.
select version from windlass.secret where org = $1 and name = $2

-- name: put
-- scope: org
-- Store a sealed value.
insert into windlass.secret (org, name, version, ciphertext, data_key_id, updated_by) values ($1, $2, $3, $4, $5, $6)
on conflict (org, name) do update
   set version = excluded.version, ciphertext = excluded.ciphertext, data_key_id = excluded.data_key_id,
       updated_at = windlass.now(), updated_by = excluded.updated_by
returning name, version, updated_at, updated_by

-- name: reseal
-- scope: org
-- Replace the ciphertext of a secret whose value stays the same.
update windlass.secret set ciphertext = $3, data_key_id = $4 where org = $1 and name = $2

-- name: list
-- scope: org
-- List the secrets of an org by name, without those of the engine.
select name, version, updated_at, updated_by from windlass.secret
 where org = $1 and name > $2 and position('/' in name) = 0 order by name limit $3

-- name: count
-- scope: org
-- Count the secrets of an org, without those of the engine.
select count(*) from windlass.secret where org = $1 and position('/' in name) = 0

-- name: names
-- scope: org
-- Return which of these names are secrets of an org.
select name from windlass.secret where org = $1 and name = any($2::text[])

-- name: delete
-- scope: org
-- Delete a secret.
delete from windlass.secret where org = $1 and name = $2 returning true

-- name: delete_below
-- scope: org
-- Delete the secrets of the engine whose names begin with $2, except the names in $3.
delete from windlass.secret where org = $1 and starts_with(name, $2) and name <> all($3::text[])

-- name: data_key
-- scope: org
-- Return the data key that currently seals the secrets of an org.
select id, org, wrapped, master_key from windlass.data_key where org = $1 order by created_at desc, id desc limit 1

-- name: add_data_key
-- scope: org
-- Insert a data key.
insert into windlass.data_key (id, org, wrapped, master_key) values ($1, $2, $3, $4)

-- name: drop_data_keys
-- scope: org
-- Delete the data keys of an org that seal nothing, except $2.
delete from windlass.data_key k
 where org = $1 and id <> $2 and not exists (select from windlass.secret s where s.data_key_id = k.id)

-- name: data_keys_to_wrap
-- scope: global
-- Lock and return data keys that are wrapped with another master key than $1. Secrets that refer to them may be written meanwhile.
select id, org, wrapped, master_key from windlass.data_key where master_key <> $1 order by id limit $2 for no key update

-- name: wrap_data_key
-- scope: global
-- Replace the wrapping of a data key; the key itself stays the same.
update windlass.data_key set wrapped = $2, master_key = $3 where id = $1

-- name: server_key
-- scope: global
-- Return a key of the installation: sealed, or in plain text if an earlier version stored it.
select name, value, sealed, master_key from windlass.server_key where name = $1

-- name: add_server_key
-- scope: global
-- Insert a key of the installation unless another process has already inserted it.
insert into windlass.server_key (name, sealed, master_key) values ($1, $2, $3) on conflict do nothing

-- name: server_keys_to_seal
-- scope: global
-- Lock and return the keys of the installation that are in plain text, or sealed with another master key than $1.
select name, value, sealed, master_key from windlass.server_key where master_key is distinct from $1 order by name for update

-- name: seal_server_key
-- scope: global
-- Replace a key of the installation by its sealed form.
update windlass.server_key set value = null, sealed = $2, master_key = $3 where name = $1

-- name: subscriptions_to_seal
-- scope: global
-- Lock and return subscriptions whose secrets an earlier version stored in plain text.
select id, org, rotation, secret, old_secret from windlass.subscription
 where secret is not null or old_secret is not null order by id for update

-- name: clear_subscription
-- scope: global
-- Delete the plain text of a subscription's secrets.
update windlass.subscription set secret = null, old_secret = null where id = $1

-- name: has_plain
-- scope: global
-- Return whether anything is stored in plain text that a master key would seal.
select exists (select from windlass.server_key where value is not null)
    or exists (select from windlass.subscription where secret is not null or old_secret is not null)

-- name: rewrite
-- scope: global
-- Rewrite the tables to new files, without the old row versions, which contain the plain text. A plain vacuum would
-- free their space and leave the bytes in it.
vacuum full windlass.server_key, windlass.subscription

-- name: master_keys
-- scope: global
-- Return the ids of the master keys with which a data key or a key of the installation is sealed.
select master_key from windlass.data_key union select master_key from windlass.server_key where master_key is not null

-- name: in_use
-- scope: global
-- Return whether anything is stored that needs a master key: secrets, or subscriptions, hooks and API keys, whose
-- signatures, tokens and hashes are computed with a key of the installation.
select exists (select from windlass.secret) or exists (select from windlass.subscription) or exists (select from windlass.hook)
    or exists (select from windlass.api_key)
