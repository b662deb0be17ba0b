-- What the background loops have to do. Each query is a few looks at indexes that are nearly always empty, in one round trip.

-- name: runs
-- scope: global
-- Return whether runs wait for room, messages are to be delivered or requested runs started, runs have unapplied events (see
-- find_unsettled), and entries of the quarantine of the kinds $1 are due for a retry. What is in quarantine is left out until its
-- next retry.
select exists (select from windlass.run where state = 'pending'),
       exists (select from windlass.message m where seq is null and not exists (
                 select from windlass.quarantine q
                  where q.kind = 'message' and q.key = m.org || '/' || m.name || '/' || m.key and q.retry_at > windlass.now()))
         or exists (select from windlass.waiter w where state = 'new' and not exists (
                 select from windlass.quarantine q
                  where q.kind = 'message' and q.key = w.org || '/' || w.name || '/' || w.key and q.retry_at > windlass.now()))
         or exists (select from windlass.waiter w where state = 'received' and not exists (
                 select from windlass.quarantine q where q.kind in ('run', 'job') and q.key = coalesce(w.run_id, w.job_id)::text))
         or exists (select from windlass.start_request r where not exists (
                 select from windlass.quarantine q where q.kind = 'start' and q.key = r.id::text)),
       exists (select from workflow.workflow_run
                where not settled and (status in ('succeeded', 'failed', 'cancelled') or deleted_at is not null)
                  and run_id <> all(array(select key::uuid from windlass.quarantine where kind = 'run')))
         or exists (select from windlass.notice
                     where run_id <> all(array(select key::uuid from windlass.quarantine where kind = 'run')))
         or exists (select from windlass.waiter
                     where state = 'received' and run_id is not null
                       and run_id <> all(array(select key::uuid from windlass.quarantine where kind = 'run'))),
       exists (select from windlass.quarantine where retry_at <= windlass.now() and kind = any($1))

-- name: jobs
-- scope: global
-- Return whether jobs wait for a rate limit, jobs were not started before their expiry, attempts exceeded their timeout, and jobs
-- that plain SQL inserted have no `created` event.
select exists (select from windlass.rate_line where called_at is null),
       exists (select from workflow.workflow_run
                where status = 'pending' and expires_at is not null and expires_at <= windlass.now()),
       exists (select from workflow.workflow_run
                where status = 'leased' and stop_at is not null and stop_at <= windlass.now()),
       exists (select from workflow.workflow_run where needs_created_event)
