package inbox

import (
	"context"
	"encoding/json"
	"time"
)

// Claim is a job that is leased to a worker.
type Claim struct {
	ID, Type string
	Payload  json.RawMessage
	// Attempt is the number of failures so far, as in the table.
	Attempt, MaxAttempts int
}

// ClaimOptions select the jobs to claim.
type ClaimOptions struct {
	// Worker is the owner of the leases. Two workers must not share a name: a worker can only change what is leased to it.
	Worker string
	// Types are job types, or patterns such as billing.%, in which % stands for any string.
	Types []string
	// Except are types that are not claimed, such as those that the registry gives to another runtime.
	Except []string
	// Count is the maximum number of jobs to claim.
	Count int
	// Lease is how long the jobs stay leased to the worker without a heartbeat.
	Lease time.Duration
}

// The rows are locked in the order of the queue; rows that another worker has locked are skipped, so claims never wait for
// each other. One statement: an event that has no job, or a job without its event, cannot exist. The rows are updated by
// their ctid, which cannot change while they are locked.
//
// Jobs come and go faster than the statistics of the table are updated. With the statistics of an empty queue the
// planner would read and sort all pending jobs for every claim. It cannot estimate coalesce or the subquery of the
// limit, so it assumes that half of the rows match and that a tenth of them is needed, and walks the index in the order
// of the queue. That index applies only to statements with a condition on run_at.
const claimStatement = `
with picked as materialized (
  select ctid from workflow.workflow_run
   where status = 'pending' and run_at <= now()
     and coalesce(deleted_at is null and type like any($1::text::text[]) and type <> all($2::text::text[]), false)
   order by priority, created_at
     for update skip locked
   limit (select $3::int)
), claimed as (
  update workflow.workflow_run r
     set status = 'leased', leased_by = $4::text, lease_until = now() + $5::float8 * interval '1 second', updated_at = now()
    from picked p
   where r.ctid = p.ctid
  returning r.id, r.type, r.payload, r.attempt, r.max_attempts, r.priority, r.created_at
), logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data)
  select id, 'leased', jsonb_build_object('worker_id', $4::text, 'attempt', attempt) from claimed
)
select id, type, payload::text, attempt, max_attempts from claimed order by priority, created_at`

// Claim leases due jobs to a worker, those with the lowest priority number first.
func (i *Inbox) Claim(ctx context.Context, options ClaimOptions) ([]Claim, error) {
	patterns := make([]string, len(options.Types))
	for n, one := range options.Types {
		patterns[n] = escapeLike(one)
	}
	rows, err := i.db.QueryContext(ctx, i.query(claimStatement), arrayOf(patterns), arrayOf(options.Except), options.Count,
		options.Worker, options.Lease.Seconds())
	if err != nil {
		return nil, err
	}
	return collect(rows, func(scan func(...any) error) (Claim, error) {
		var claim Claim
		var payload string
		err := scan(&claim.ID, &claim.Type, &payload, &claim.Attempt, &claim.MaxAttempts)
		claim.Payload = json.RawMessage(payload)
		return claim, err
	})
}

// escapeLike returns a pattern in which only % is special: an underscore is a common character of types.
func escapeLike(pattern string) string {
	escaped := make([]byte, 0, len(pattern)+4)
	for n := range len(pattern) {
		if pattern[n] == '_' || pattern[n] == '\\' {
			escaped = append(escaped, '\\')
		}
		escaped = append(escaped, pattern[n])
	}
	return string(escaped)
}

// Rows are locked in the order of their ids, as everywhere, so that statements about several jobs cannot deadlock. A
// job is held if it is leased to this worker and the attempt is the one that was claimed. The coalesce keeps the
// planner from using the index of leases, which it believes to be nearly empty: it would read all leased jobs for every
// batch.
const heldRows = `
held as materialized (
  select t.* from input t join workflow.workflow_run r on r.id = t.id
   where coalesce(r.status = 'leased' and r.leased_by = $1::text and r.attempt = t.attempt, false)
   order by r.id
     for update of r
)`

// Success is a job that has succeeded.
type Success struct {
	Claim  Claim
	Result json.RawMessage
}

const completeStatement = `
with input as (
  select * from unnest($2::text::uuid[], $3::text::int[], $4::text::text[]) as t (id, attempt, result)
), ` + heldRows + `, done as (
  update workflow.workflow_run r
     set status = 'succeeded', result = h.result::jsonb, leased_by = null, lease_until = null, updated_at = now()
    from held h
   where r.id = h.id
  returning r.id
), logged as (
  insert into workflow.workflow_event (workflow_id, event_type) select id, 'succeeded' from done
)
select id from done`

// Complete records results with one statement, and returns the ids of the jobs that the worker still held. Other jobs
// are left unchanged: another worker has them, or they were cancelled.
func (i *Inbox) Complete(ctx context.Context, worker string, successes []Success) ([]string, error) {
	var ids, attempts, results array
	for _, one := range successes {
		ids.add(one.Claim.ID)
		attempts.addInt(one.Claim.Attempt)
		results.addOptional(string(one.Result))
	}
	return i.ids(ctx, completeStatement, worker, ids.text(), attempts.text(), results.text())
}

// Failure is a job that has failed.
type Failure struct {
	Claim Claim
	Error string
	// IsFinal means that there are no further attempts.
	IsFinal bool
	// Delay is the time until the next attempt. If it is nil, the next attempt is due n² minutes after n failures, plus
	// up to 10 %.
	Delay *time.Duration
	// IsCancelled means that the handler stopped because the job is to be cancelled.
	IsCancelled bool
}

const failStatement = `
with input as (
  select * from unnest($2::text::uuid[], $3::text::int[], $4::text::text[], $5::text::bool[], $6::text::float8[], $7::text::bool[])
    as t (id, attempt, error, is_final, delay, is_cancelled)
), ` + heldRows + `, done as (
  update workflow.workflow_run r
     set status = case when h.is_cancelled then 'cancelled'
                       when h.is_final or r.attempt + 1 >= r.max_attempts then 'failed'
                       else 'pending' end,
         attempt = r.attempt + case when h.is_cancelled then 0 else 1 end,
         run_at = case when h.is_cancelled or h.is_final or r.attempt + 1 >= r.max_attempts then r.run_at
                       else now() + interval '1 second'
                            * coalesce(h.delay, 60 * (r.attempt + 1) ^ 2 * (1 + 0.1 * random())) end,
         last_error = h.error, updated_at = now()
    from held h
   where r.id = h.id
  returning r.id, r.status, r.attempt, r.last_error
), logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data)
  select id, case status when 'failed' then 'failed' else 'retried' end,
         jsonb_build_object('attempt', attempt, 'error', last_error)
    from done where status <> 'cancelled'
)
select id from done`

// Fail records failures with one statement: the next attempt is due after the backoff, or the job has failed if it has used
// up its attempts. It returns the ids of the jobs that the worker still held.
func (i *Inbox) Fail(ctx context.Context, worker string, failures []Failure) ([]string, error) {
	var ids, attempts, messages, finals, delays, cancelled array
	for _, one := range failures {
		ids.add(one.Claim.ID)
		attempts.addInt(one.Claim.Attempt)
		messages.add(one.Error)
		finals.addBool(one.IsFinal)
		delays.addSeconds(one.Delay)
		cancelled.addBool(one.IsCancelled)
	}
	return i.ids(ctx, failStatement, worker, ids.text(), attempts.text(), messages.text(), finals.text(), delays.text(),
		cancelled.text())
}

const releaseStatement = `
with input as (
  select * from unnest($2::text::uuid[], $3::text::int[]) as t (id, attempt)
), ` + heldRows + `
update workflow.workflow_run r
   set status = 'pending', leased_by = null, lease_until = null, updated_at = now()
  from held h
 where r.id = h.id
returning r.id`

// Release returns jobs to the queue without charging an attempt, and returns the ids of those that the worker still
// held.
func (i *Inbox) Release(ctx context.Context, worker string, claims []Claim) ([]string, error) {
	ids, attempts := keys(claims)
	return i.ids(ctx, releaseStatement, worker, ids, attempts)
}

func keys(claims []Claim) (string, string) {
	var ids, attempts array
	for _, one := range claims {
		ids.add(one.ID)
		attempts.addInt(one.Attempt)
	}
	return ids.text(), attempts.text()
}

func (i *Inbox) ids(ctx context.Context, statement, worker string, args ...any) ([]string, error) {
	rows, err := i.db.QueryContext(ctx, i.query(statement), append([]any{worker}, args...)...)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(scan func(...any) error) (id string, err error) { return id, scan(&id) })
}

// Heartbeats is the result of [Inbox.Heartbeat]. A job that is in neither list is lost: another worker may have it.
type Heartbeats struct {
	Extended, Cancelled []string
}

const heartbeatStatement = `
with input as (
  select * from unnest($2::text::uuid[], $3::text::int[]) as t (id, attempt)
), ` + heldRows + `, extended as (
  update workflow.workflow_run r
     set lease_until = now() + $4::float8 * interval '1 second', updated_at = now()
    from held h
   where r.id = h.id
  returning r.id, r.cancel_requested
), logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data)
  select id, 'heartbeat', jsonb_build_object('extended_by_seconds', $4::float8) from extended
)
select r.id, e.id is not null, r.status = 'cancelled' or coalesce(e.cancel_requested, false)
  from input t join workflow.workflow_run r on r.id = t.id left join extended e on e.id = r.id`

// Heartbeat extends the leases of jobs, and returns the ids of the extended and of the cancelled ones.
func (i *Inbox) Heartbeat(ctx context.Context, worker string, lease time.Duration, claims []Claim) (*Heartbeats, error) {
	ids, attempts := keys(claims)
	rows, err := i.db.QueryContext(ctx, i.query(heartbeatStatement), worker, ids, attempts, lease.Seconds())
	if err != nil {
		return nil, err
	}
	var beats Heartbeats
	_, err = collect(rows, func(scan func(...any) error) (struct{}, error) {
		var id string
		var isExtended, isCancelled bool
		err := scan(&id, &isExtended, &isCancelled)
		if isExtended {
			beats.Extended = append(beats.Extended, id)
		}
		if isCancelled {
			beats.Cancelled = append(beats.Cancelled, id)
		}
		return struct{}{}, err
	})
	return &beats, err
}

// IsCancelled reports whether a job was cancelled.
func (i *Inbox) IsCancelled(ctx context.Context, id string) (bool, error) {
	run, err := i.Get(ctx, id)
	return err == nil && run.Status == "cancelled", err
}
