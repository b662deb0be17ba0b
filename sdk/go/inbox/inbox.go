// Package inbox submits and executes jobs over plain SQL, through the tables of the schema workflow. It connects only
// to the database of a Windlass server: Windlass reclaims expired leases, writes created and cancelled events, and
// prevents finished jobs from being overwritten.
//
// The package uses database/sql; bring any driver for Postgres, such as github.com/jackc/pgx/v5/stdlib or
// github.com/lib/pq.
package inbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Errors of single jobs, for [errors.Is].
var (
	// ErrNotFound means that the job or schedule does not exist.
	ErrNotFound = errors.New("not found")
	// ErrEnded means that the job has already ended.
	ErrEnded = errors.New("the job has ended")
)

// Querier executes statements: a *sql.DB, *sql.Tx or *sql.Conn.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Inbox gives access to the job tables of a database. It is safe for concurrent use if its Querier is.
type Inbox struct {
	db     Querier
	schema string
}

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// New returns the inbox of a database, in the schema workflow.
func New(db Querier) *Inbox { return &Inbox{db: db, schema: "workflow"} }

// InSchema returns the inbox of another schema. It panics if the name would have to be quoted.
func (i *Inbox) InSchema(name string) *Inbox {
	if !plainName.MatchString(name) {
		panic(fmt.Sprintf("inbox: %q is not a plain name of a schema", name))
	}
	return &Inbox{db: i.db, schema: name}
}

// In returns the same inbox in a transaction: submitted jobs become visible when it commits.
func (i *Inbox) In(tx Querier) *Inbox { return &Inbox{db: tx, schema: i.schema} }

// query returns a statement with the schema of the inbox in the names of its tables.
func (i *Inbox) query(text string) string { return strings.ReplaceAll(text, "workflow.", i.schema+".") }

// NewJob is a job to submit. Zero values are replaced by the defaults of the table.
type NewJob struct {
	// Type is the name of the handler: domain.action.v1.
	Type string
	// Payload is encoded as JSON; nil is an empty object.
	Payload any
	// Priority orders the claims: jobs with lower numbers are claimed first. It is 100 if it is nil.
	Priority *int
	// RunAt is when the job becomes due: now if it is zero.
	RunAt time.Time
	// IdempotencyKey makes the submission repeatable: a second job with the key is not inserted.
	IdempotencyKey string
	// MaxAttempts is the maximum number of attempts, 3 by default.
	MaxAttempts int
}

// Submitted is the result of a submission. A duplicate has the id of the job that already has the key, or no id if the
// role cannot see that job under its plain key, as in an org other than default.
type Submitted struct {
	ID          string
	IsDuplicate bool
}

// Submit inserts a job.
func (i *Inbox) Submit(ctx context.Context, job NewJob) (Submitted, error) {
	all, err := i.SubmitMany(ctx, []NewJob{job})
	if err != nil {
		return Submitted{}, err
	}
	return all[0], nil
}

const submitStatement = `
insert into workflow.workflow_run (id, type, payload, priority, run_at, idempotency_key, max_attempts)
select id, type, payload::jsonb, priority, coalesce(run_at, now()), idempotency_key, max_attempts
  from unnest($1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::int[], $5::text::timestamptz[],
              $6::text::text[], $7::text::int[])
    as t (id, type, payload, priority, run_at, idempotency_key, max_attempts)
on conflict (idempotency_key) do nothing
returning id`

// SubmitMany inserts jobs with one statement: all or, after an error, none. The results are in the order of the jobs.
func (i *Inbox) SubmitMany(ctx context.Context, jobs []NewJob) ([]Submitted, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	var ids, types, payloads, priorities, times, keys, attempts array
	for n, job := range jobs {
		if job.Type == "" {
			return nil, fmt.Errorf("inbox: jobs[%d].Type is empty", n)
		}
		payload, err := json.Marshal(job.Payload)
		if err != nil {
			return nil, fmt.Errorf("inbox: jobs[%d].Payload cannot be encoded: %w", n, err)
		}
		if job.Payload == nil {
			payload = []byte("{}")
		}
		ids.add(newID())
		types.add(job.Type)
		payloads.add(string(payload))
		priorities.addInt(value(job.Priority, 100))
		times.addTime(job.RunAt)
		keys.addOptional(job.IdempotencyKey)
		attempts.addInt(value(nonZero(job.MaxAttempts), 3))
	}
	rows, err := i.db.QueryContext(ctx, i.query(submitStatement), ids.text(), types.text(), payloads.text(), priorities.text(),
		times.text(), keys.text(), attempts.text())
	if err != nil {
		return nil, err
	}
	inserted, err := collect(rows, func(scan func(...any) error) (id string, err error) { return id, scan(&id) })
	if err != nil {
		return nil, err
	}
	isNew := make(map[string]bool, len(inserted))
	for _, id := range inserted {
		isNew[id] = true
	}
	answers := make([]Submitted, len(jobs))
	var duplicates array
	for n := range jobs {
		answers[n] = Submitted{ID: ids.values[n]}
		if !isNew[ids.values[n]] {
			answers[n] = Submitted{IsDuplicate: true}
			duplicates.add(jobs[n].IdempotencyKey)
		}
	}
	if len(duplicates.values) == 0 {
		return answers, nil
	}
	return answers, i.existing(ctx, jobs, answers, duplicates)
}

// existing fills in the ids of the jobs that already have the keys of the duplicates.
func (i *Inbox) existing(ctx context.Context, jobs []NewJob, answers []Submitted, keys array) error {
	query := i.query(`select idempotency_key, id from workflow.workflow_run where idempotency_key = any($1::text::text[])`)
	rows, err := i.db.QueryContext(ctx, query, keys.text())
	if err != nil {
		return err
	}
	ids := map[string]string{}
	_, err = collect(rows, func(scan func(...any) error) (struct{}, error) {
		var key, id string
		err := scan(&key, &id)
		ids[key] = id
		return struct{}{}, err
	})
	for n := range answers {
		if answers[n].IsDuplicate {
			answers[n].ID = ids[jobs[n].IdempotencyKey]
		}
	}
	return err
}

// Cancel cancels a job that has not ended. A worker that executes it is notified with its next heartbeat.
func (i *Inbox) Cancel(ctx context.Context, id string) error {
	result, err := i.db.ExecContext(ctx, i.query(`
update workflow.workflow_run set status = 'cancelled', updated_at = now()
 where id = $1 and status in ('pending', 'leased')`), id)
	if err != nil {
		return err
	}
	if count, err := result.RowsAffected(); err != nil || count > 0 {
		return err
	}
	if _, err := i.Get(ctx, id); err != nil {
		return err
	}
	return ErrEnded
}

// Run is a row of workflow_run.
type Run struct {
	ID, Type, Status, LeasedBy, LastError, IdempotencyKey string
	Payload, Result                                       json.RawMessage
	Priority, Attempt, MaxAttempts                        int
	RunAt, CreatedAt, UpdatedAt                           time.Time
	LeaseUntil                                            *time.Time
}

// Get returns a job.
func (i *Inbox) Get(ctx context.Context, id string) (*Run, error) {
	var run Run
	var result *string
	var payload string
	err := i.db.QueryRowContext(ctx, i.query(`
select id, type, payload::text, status, priority, run_at, coalesce(idempotency_key, ''), attempt, max_attempts,
       coalesce(leased_by, ''), lease_until, coalesce(last_error, ''), result::text, created_at, updated_at
  from workflow.workflow_run
 where id = $1 and deleted_at is null`), id).Scan(
		&run.ID, &run.Type, &payload, &run.Status, &run.Priority, &run.RunAt, &run.IdempotencyKey, &run.Attempt, &run.MaxAttempts,
		&run.LeasedBy, &run.LeaseUntil, &run.LastError, &result, &run.CreatedAt, &run.UpdatedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("inbox: job %s: %w", id, ErrNotFound)
	}
	run.Payload = json.RawMessage(payload)
	if result != nil {
		run.Result = json.RawMessage(*result)
	}
	return &run, err
}

// Event is a row of workflow_event.
type Event struct {
	Type string
	Data json.RawMessage
	At   time.Time
}

// Events returns the audit trail of a job, oldest first.
func (i *Inbox) Events(ctx context.Context, id string) ([]Event, error) {
	rows, err := i.db.QueryContext(ctx, i.query(`
select event_type, coalesce(data::text, 'null'), created_at from workflow.workflow_event where workflow_id = $1 order by id`), id)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(scan func(...any) error) (Event, error) {
		var event Event
		var data string
		err := scan(&event.Type, &data, &event.At)
		event.Data = json.RawMessage(data)
		return event, err
	})
}

// collect reads all rows.
func collect[T any](rows *sql.Rows, read func(scan func(...any) error) (T, error)) ([]T, error) {
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := read(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails: see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func value[T any](pointer *T, otherwise T) T {
	if pointer == nil {
		return otherwise
	}
	return *pointer
}

func nonZero(number int) *int {
	if number == 0 {
		return nil
	}
	return &number
}
