-- May run before the new code: yes (new tables and a nullable column).
-- Requests from outside: callbacks that steps wait for, and the headers of a request that started a run.

alter table windlass.run add column trigger_headers jsonb;

-- Keys of this installation, created once. The token of a hook is an HMAC with the key `hook`: any process can compute an
-- address, and the table of hooks alone reveals none.
create table windlass.secret (
  name  text primary key,
  value bytea not null
);
insert into windlass.secret (name, value)
values ('hook', decode(replace(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));

-- A callback address, created when its run starts: earlier steps send it out, and an early callback is stored.
create table windlass.hook (
  run_id      uuid not null,
  step        int not null,
  token_hash  bytea not null,
  received_at timestamptz,
  body        text,
  headers     jsonb,
  primary key (run_id, step)
);
create unique index hook_token on windlass.hook (token_hash);
