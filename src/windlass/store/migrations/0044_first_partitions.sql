-- May run before the new code: yes (upkeep creates the same partitions).
-- A new installation has its first partitions and archives before its first worker starts, which would otherwise lock tables that
-- it writes to. Upkeep creates the later ones.
select windlass.make_event_partition(windlass.now() + week * interval '7 days'),
       windlass.make_archive(windlass.archive_week(windlass.now() + week * interval '7 days'))
  from generate_series(0, 2) as week
 where not exists (select from windlass.run) and not exists (select from workflow.workflow_run);
select windlass.make_audit_partition(windlass.now() + month * interval '1 month')
  from generate_series(0, 2) as month where not exists (select from windlass.audit);
