-- May run before the new code: yes (steps of older code that need the key of callbacks are set aside and retried by this code).
-- Secrets of orgs, and keys of the installation, sealed with a key that is not in the database.

-- Keys of this installation. `value` is what earlier versions stored. The first process that starts with a master key seals it and
-- clears `value`; `master_key` is the id of that key.
alter table windlass.secret rename to server_key;
alter table windlass.server_key rename constraint secret_pkey to server_key_pkey;
alter table windlass.server_key alter column value drop not null, add column sealed bytea, add column master_key text,
  add constraint server_key_sealed check (num_nonnulls(value, sealed) = 1 and (sealed is null) = (master_key is null));

-- The keys that secrets are sealed with; the latest one of an org seals. They are sealed themselves, with a master key.
create table windlass.data_key (
  id         uuid primary key,
  org        text not null,
  wrapped    bytea not null,
  master_key text not null,
  created_at timestamptz not null default windlass.now()
);
create index data_key_org on windlass.data_key (org, created_at desc, id desc);

-- Secrets of orgs. Names with a slash belong to the engine: `subscription/<id>/<rotation>` signs the requests to a subscriber. The
-- columns `secret` and `old_secret` of subscriptions hold what earlier versions stored until it is sealed.
create table windlass.secret (
  org         text not null,
  name        text not null,
  version     int not null,
  ciphertext  bytea not null,
  data_key_id uuid not null references windlass.data_key,
  updated_at  timestamptz not null default windlass.now(),
  updated_by  text not null,
  primary key (org, name)
);
create index secret_data_key on windlass.secret (data_key_id);
