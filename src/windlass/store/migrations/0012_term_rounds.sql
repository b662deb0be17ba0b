-- May run before the new code: yes (a defaulted column; older code does not change it).
-- When a duty was last performed, so that a new holder can distinguish a handover from an outage.
alter table windlass.term add column renewed_at timestamptz not null default now();
