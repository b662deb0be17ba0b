-- May run before the new code: yes (a new table).
-- Things that could not be processed because of an error nobody foresaw. Loops skip what is listed here, so one bad run or
-- schedule costs only itself, and try it again alone, with growing pauses, when `retry_at` has come.

create table windlass.quarantine (
  kind       text collate "C" not null,  -- run, workflow, trigger, cron, schedule, job, version, event, duty
  key        text collate "C" not null,  -- its id or name
  error_type text not null,
  reason     text not null,
  failures   int not null default 1,
  first_at   timestamptz not null default windlass.now(),
  last_at    timestamptz not null default windlass.now(),
  retry_at   timestamptz,                -- null: nothing to retry, the entry is kept for people to read
  primary key (kind, key)
);
create index quarantine_retry on windlass.quarantine (retry_at) where retry_at is not null;
