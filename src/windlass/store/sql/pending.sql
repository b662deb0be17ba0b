-- The pending work of the background loops. Each query returns one row, from a few probes of indexes that are nearly
-- always empty. A process combines all of them in one statement (store/workers.py, `pending_work`); a loop that is
-- woken runs its own.

-- name: process
-- scope: global
-- Return the time; the current holder of the leader term of duty $1, and when that term was last renewed; whether any
-- job is leased by any worker (true without a probe if not $2: see runtime/loops/look.py); whether events were written
-- that are not counted yet, or the count has not begun (the position is a snapshot whose text begins with the first
-- transaction that it may not see; after a failover it may be ahead of the server); and whether a subscription is
-- active.
select windlass.now(),
       (select holder from windlass.term where duty = $1 and until > windlass.now()),
       (select renewed_at from windlass.term where duty = $1),
       case when $2 then exists (select from only workflow.workflow_run where status = 'leased') else true end,
       coalesce((select exists (select from workflow.workflow_event where xid >= split_part(b.place, '+', 1)::xid8)
                        or split_part(b.place, '+', 1)::xid8 > pg_snapshot_xmax(pg_current_snapshot())
                   from windlass.bookmark b where b.reader = 'usage'), true),
       exists (select from windlass.subscription where active)

-- name: runs
-- scope: global
-- Return whether runs are pending, messages are to be delivered or requested runs started, runs have unapplied events
-- (see find_unsettled), and entries of the quarantine of the kinds $1 are due for a retry. Items in quarantine are left
-- out until their next retry.
select exists (select from only windlass.run where state = 'pending'),
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
       exists (select from only workflow.workflow_run
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
-- Return whether jobs wait for a rate limit, jobs were not started before their expiry, attempts exceeded their
-- timeout, and jobs that plain SQL inserted have no `created` event. Jobs in quarantine are left out until their next
-- retry.
select exists (select from windlass.rate_line where called_at is null),
       exists (select from only workflow.workflow_run
                where status = 'pending' and expires_at is not null and expires_at <= windlass.now()
                  and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now()))),
       exists (select from only workflow.workflow_run
                where status = 'leased' and stop_at is not null and stop_at <= windlass.now()
                  and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now()))),
       exists (select from only workflow.workflow_run
                where needs_created_event
                  and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now())))
