-- Claims that were committed although their result never arrived: the connection was lost, or a row could not be decoded.

-- name: find
-- scope: global
-- Return the jobs that are leased to this worker: only id and claim number, which can always be decoded.
select id, claim_no from only workflow.workflow_run where status = 'leased' and leased_by = $1 order by seq limit 10000

-- name: take
-- scope: global
-- Give one of these jobs a lease of its own, for the process that found it, and return it with the columns that `claim`
-- in jobs.sql returns. The worker lease that it was claimed under may be that of an earlier process with the same
-- worker id.
update only workflow.workflow_run
   set lease_until = windlass.now() + $4::interval, worker_lease = null, updated_at = windlass.now()
 where id = $1 and claim_no = $2 and leased_by = $3
returning id, type, payload, queue, priority, seq, attempt, lost, max_attempts, claim_no,
          case when timeout > interval '36525 days' then interval '36525 days' else timeout end as timeout, retry,
          least(greatest(created_at, '0001-01-02'), '9999-12-30') as created_at, meta, alone,
          run_id, version_id, step, item, items, epoch

-- name: put_back
-- scope: global
-- Release a job that cannot be started, to be tried again later, without charging an attempt. A job that was requested to stop is
-- left leased until its lease expires.
-- moves: leased -> pending
with back as (
  update only workflow.workflow_run
     set status = 'pending', run_at = windlass.now() + $4::interval, last_error = $5, leased_by = null, lease_until = null, worker_lease = null,
         updated_at = windlass.now()
   where id = $1 and claim_no = $2 and leased_by = $3 and not cancel_requested
  returning id, attempt + lost + 1 as number),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor, attempt)
  select id, 'retried', jsonb_build_object('reason', 'handed back: ' || $5), $3, number from back)
select exists (select from back)
