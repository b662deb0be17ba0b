-- May run before the new code: yes (upkeep creates the same tables).
-- A new installation has its first archives before its first worker starts. Creating them locks the tables that the worker writes
-- to. Upkeep creates the later ones.
select windlass.make_archive(windlass.archive_week(windlass.now() + week * interval '7 days')) from generate_series(0, 2) as week
 where not exists (select from windlass.run) and not exists (select from workflow.workflow_run);
