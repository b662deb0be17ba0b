-- May run before the new code: yes (a table and a column that older code does not use).
-- How many jobs each org has had, by calendar month (UTC): those of steps and standalone ones. One process at a time reads the
-- event trail after its bookmark and adds what is new, so no producer waits for a row here.
create table windlass.usage (
  org        text not null,
  month      date not null check (extract(day from month) = 1),
  executions bigint not null default 0 check (executions >= 0),
  primary key (org, month)
);
alter table windlass.bookmark add column read_at timestamptz;  -- when the reader last moved it
