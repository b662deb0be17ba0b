-- For conformance tests only: removes everything that happened here, but not the definitions.

-- name: tables
-- Return the tables to empty: jobs, runs, events, schedules, and settings of queues and workers. Definitions are kept, because
-- processes cache the shapes of compositions by number. Published workflows are deleted by `unpublish`.
select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname in ('workflow', 'windlass') and c.relkind in ('r', 'p') and not c.relispartition
   and (n.nspname, c.relname) not in (('windlass', 'migration'), ('windlass', 'workflow'), ('windlass', 'version'), ('windlass', 'term'),
                                      ('windlass', 'secret'), ('windlass', 'hook_key'))
 order by 1

-- name: unpublish
-- Delete all published workflows: their names become free and nothing starts new runs of them.
update windlass.workflow set deleted_at = windlass.now(), updated_at = windlass.now(), token_hash = null
 where deleted_at is null and not hidden
