-- May run before the new code: yes (a table).
-- The pools that processes have offered: where steps with `runs_on` run. They belong to the installation, not to an org.
create table windlass.pool (
  name text primary key,
  launcher text not null,
  max_parallel int not null,
  image text,
  holder text,          -- the process that launches its jobs
  problem text,         -- why it cannot be used; null: it can
  seen_at timestamptz not null default windlass.now()
);
