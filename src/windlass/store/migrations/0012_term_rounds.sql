-- May run before the new code: yes (a defaulted column; processes that do not know it leave it as it is).
-- When a duty was last carried out, so that a process that takes it over can tell a hand-over from an outage.
alter table windlass.term add column renewed_at timestamptz not null default now();
