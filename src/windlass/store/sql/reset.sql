-- For tests of conformance only: everything that was done here is forgotten.

-- name: tables
-- What is emptied: jobs, runs, trails, and what was said about queues and workers. Definitions stay, with whoever remembers them.
select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname in ('workflow', 'windlass') and c.relkind in ('r', 'p') and not c.relispartition
   and (n.nspname, c.relname) not in (('windlass', 'migration'), ('windlass', 'workflow'), ('windlass', 'version'), ('windlass', 'term'),
                                      ('windlass', 'schedule'), ('windlass', 'secret'), ('windlass', 'hook_key'))
 order by 1
