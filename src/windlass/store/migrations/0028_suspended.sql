-- May run before the new code: yes (columns with defaults).
-- Handlers that wait. A row with a name is a durable call of a handler: a step, a sleep, a wait for a message, a run, or the time.
alter table windlass.checkpoint
  add column kind  text not null default 'step' constraint checkpoint_kind_check check (kind in ('step', 'sleep', 'wait', 'run', 'now')),
  add column place int,                         -- its number among the calls that the handler makes one after the other
  add column waits boolean not null default false,  -- it has not ended: the handler waits for it
  add column until timestamptz;                 -- when it ends at the latest
