-- For tests of conformance only: everything that was done here is forgotten.

-- name: tables
-- What is emptied: jobs, runs, trails, schedules, and what was said about queues and workers. Definitions stay: processes remember
-- the shapes of compositions by number; published workflows are deleted by `unpublish`.
select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname in ('workflow', 'windlass') and c.relkind in ('r', 'p') and not c.relispartition
   and (n.nspname, c.relname) not in (('windlass', 'migration'), ('windlass', 'workflow'), ('windlass', 'version'), ('windlass', 'term'),
                                      ('windlass', 'secret'), ('windlass', 'hook_key'))
 order by 1

-- name: unpublish
-- Free the names of all published workflows: nothing starts new runs of them.
update windlass.workflow set deleted_at = windlass.now(), updated_at = windlass.now(), token_hash = null
 where deleted_at is null and not hidden
