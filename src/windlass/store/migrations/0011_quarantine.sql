-- May run before the new code: yes (a new table).
-- Items whose processing failed with an unexpected error. Loops skip them, so that one bad run or schedule does not stop the
-- others, and retry each one alone, with growing delays, at `retry_at`.

create table windlass.quarantine (
  kind       text collate "C" not null,  -- run, workflow, trigger, cron, schedule, job, version, event, duty
  key        text collate "C" not null,  -- its id or name
  error_type text not null,
  reason     text not null,
  failures   int not null default 1,
  first_at   timestamptz not null default windlass.now(),
  last_at    timestamptz not null default windlass.now(),
  retry_at   timestamptz,                -- null: cannot be retried, the entry is only informational
  primary key (kind, key)
);
create index quarantine_retry on windlass.quarantine (retry_at) where retry_at is not null;
