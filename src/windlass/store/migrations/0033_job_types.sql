-- May run before the new code: yes (a table and a column that older code does not use).
-- The schemas that workers have published for the payloads of their handlers, one row per type and digest. Those of workers on
-- Postgres, which serve the queues of all orgs, belong to `default`, and every org may read them.
create table windlass.job_type (
  org           text not null,
  type          text not null,
  digest        text not null,
  schema        json,  -- not jsonb, which does not keep the order of the fields; null: the handler takes any values
  version       text,  -- of the code, as its latest worker was configured (WINDLASS_CODE_VERSION)
  first_seen_at timestamptz not null default windlass.now(),
  last_seen_at  timestamptz not null default windlass.now(),
  primary key (org, type, digest)
);
alter table windlass.job_type enable row level security;
create policy of_org on windlass.job_type
  using ((select windlass.acting_org()) is null or org = (select windlass.acting_org()) or org = 'default')
  with check ((select windlass.acting_org()) is null or org = (select windlass.acting_org()));

alter table windlass.worker add column digests jsonb;  -- by type; null: it has published none
