package inbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/loop"
)

const (
	defaultPoll      = time.Second
	firstPoll        = 5 * time.Millisecond
	registryInterval = 5 * time.Second
	runtimeName      = "go" // in the registry
)

// RuntimeOptions are the options of a runtime. Zero values are replaced by the defaults.
type RuntimeOptions struct {
	// Worker is the name of the worker, which must be unique. By default it is made of host, process id and a random
	// part.
	Worker string
	// Schema is the schema of the tables, workflow by default.
	Schema string
	// Concurrency is the maximum number of handlers that run concurrently, 10 by default.
	Concurrency int
	// Lease is how long a job stays leased to this worker without a heartbeat, 30 seconds by default. There are three
	// heartbeats per lease.
	Lease time.Duration
	// Grace is how long handlers may continue when the runtime stops, before their contexts are cancelled, 30 seconds
	// by default.
	Grace time.Duration
	// Poll is the longest interval between two polls of an empty queue, 1 second by default. The interval grows from 5
	// milliseconds.
	Poll time.Duration
	// Logger receives the log of the runtime itself, slog.Default() by default.
	Logger *slog.Logger
}

// Runtime executes jobs of some types. Register handlers with [Handle], then call Run.
type Runtime struct {
	loop    loop.Loop
	backend backend
}

// NewRuntime returns a runtime on a database. It uses up to four connections. It panics if an option is out of range.
func NewRuntime(db *sql.DB, options RuntimeOptions) *Runtime {
	shared, err := loop.Options{
		ID: options.Worker, Concurrency: options.Concurrency, Lease: options.Lease, Grace: options.Grace, Logger: options.Logger,
	}.Complete()
	if err != nil {
		panic("inbox: " + err.Error())
	}
	r := &Runtime{backend: backend{
		inbox: New(db).InSchema(cmp.Or(options.Schema, "workflow")), worker: shared.ID, lease: shared.Lease,
		poll: cmp.Or(options.Poll, defaultPoll), pause: firstPoll,
	}}
	r.loop = loop.Loop{Backend: &r.backend, Options: shared}
	return r
}

// Handle registers the handler of a job type, or of all types with a common prefix: billing.%. The payload of the job
// is decoded into In, and the value that the handler returns becomes the result of the job.
//
// The context is cancelled when the job was cancelled, its lease was lost, or the runtime stops; [context.Cause]
// returns windlass.ErrCancelled, windlass.ErrLost or windlass.ErrDraining. An error fails the attempt;
// windlass.NonRetryable and windlass.RetryAfter control the retry. Handle panics if the type already has a handler or
// if the runtime has started.
func Handle[In, Out any](r *Runtime, jobType string, handle func(ctx context.Context, payload In) (Out, error)) {
	r.loop.Handlers.Add(jobType, loop.Typed(handle))
}

// Run executes jobs until the context ends, then drains: it stops claiming, lets handlers finish within the grace
// period, cancels the contexts of the remaining handlers and returns their jobs to the queue. A runtime can run only
// once.
func (r *Runtime) Run(ctx context.Context) error {
	types, err := r.loop.Handlers.Start()
	if err != nil {
		return err
	}
	r.backend.types = types
	return r.loop.Run(ctx)
}

// ClaimFrom returns the claim of a handler's context, nil for any other context.
func ClaimFrom(ctx context.Context) *Claim {
	if one := loop.ExecutionOf(ctx); one != nil {
		if claim, ok := one.Job.Data.(*Claim); ok {
			return claim
		}
	}
	return nil
}

// backend implements [loop.Backend] with the tables.
type backend struct {
	inbox       *Inbox
	worker      string
	types       []string
	lease, poll time.Duration

	// Used only by the goroutine that fetches.
	pause     time.Duration
	except    []string
	exceptDue time.Time
}

// Fetch claims jobs. While there are none, it polls at growing intervals.
func (b *backend) Fetch(ctx context.Context, count int) ([]loop.Job, error) {
	for {
		if err := b.readRegistry(ctx); err != nil {
			return nil, b.refused(err)
		}
		claims, err := b.inbox.Claim(ctx, ClaimOptions{
			Worker: b.worker, Types: b.types, Except: b.except, Count: count, Lease: b.lease,
		})
		if err != nil {
			return nil, b.refused(err)
		}
		if len(claims) > 0 {
			b.pause = firstPoll
			jobs := make([]loop.Job, len(claims))
			for n := range claims {
				claim := &claims[n]
				jobs[n] = loop.Job{ID: claim.ID, Type: claim.Type, Input: claim.Payload, Data: claim}
			}
			return jobs, nil
		}
		pause := b.pause
		b.pause = min(b.pause*2, b.poll)
		if !loop.Sleep(ctx, pause) {
			return nil, ctx.Err()
		}
		if pause >= b.poll {
			return nil, nil // let the loop compute its capacity again
		}
	}
}

// readRegistry reads the types that are disabled or registered to another runtime, at most once per registryInterval.
func (b *backend) readRegistry(ctx context.Context) error {
	if time.Now().Before(b.exceptDue) {
		return nil
	}
	rows, err := b.inbox.db.QueryContext(ctx, b.inbox.query(`
select workflow_name from workflow.workflow_registry where deleted_at is null and (not is_enabled or runtime <> $1)`), runtimeName)
	if err != nil {
		return err
	}
	b.except, err = collect(rows, func(scan func(...any) error) (name string, err error) { return name, scan(&name) })
	b.exceptDue = time.Now().Add(registryInterval)
	return err
}

// Report records outcomes of one kind.
func (b *backend) Report(ctx context.Context, outcomes []loop.Outcome) ([]*loop.Refusal, error) {
	ctx, cancel := context.WithTimeout(ctx, max(b.lease/2, time.Second))
	defer cancel()
	var ids []string
	var err error
	switch {
	case outcomes[0].Requeue:
		ids, err = b.inbox.Release(ctx, b.worker, claimsOf(outcomes))
	case outcomes[0].Failure != nil:
		failures := make([]Failure, len(outcomes))
		for n, one := range outcomes {
			isFinal := one.Failure.Retryable != nil && !*one.Failure.Retryable
			message := strings.ToValidUTF8(strings.ReplaceAll(one.Failure.Message, "\x00", ""), "\uFFFD")
			failures[n] = Failure{
				Claim: *one.Execution.Job.Data.(*Claim), Error: message, IsFinal: isFinal, Delay: one.Delay,
				IsCancelled: one.Failure.Code == "cancelled",
			}
		}
		ids, err = b.inbox.Fail(ctx, b.worker, failures)
	default:
		successes := make([]Success, len(outcomes))
		for n, one := range outcomes {
			successes[n] = Success{Claim: *one.Execution.Job.Data.(*Claim), Result: one.Result}
		}
		ids, err = b.inbox.Complete(ctx, b.worker, successes)
	}
	if err != nil {
		return nil, b.refused(err)
	}
	recorded := make(map[string]bool, len(ids))
	for _, id := range ids {
		recorded[id] = true
	}
	refusals := make([]*loop.Refusal, len(outcomes))
	for n, one := range outcomes {
		if !recorded[one.Execution.Job.ID] {
			refusals[n] = &loop.Refusal{IsLost: true, Message: "the job is not leased to this worker"}
		}
	}
	return refusals, nil
}

func claimsOf(outcomes []loop.Outcome) []Claim {
	claims := make([]Claim, len(outcomes))
	for n, one := range outcomes {
		claims[n] = *one.Execution.Job.Data.(*Claim)
	}
	return claims
}

// Beat extends leases.
func (b *backend) Beat(ctx context.Context, executions []*loop.Execution) (*loop.Beat, error) {
	if len(executions) == 0 {
		return &loop.Beat{}, nil
	}
	claims := make([]Claim, len(executions))
	for n, one := range executions {
		claims[n] = *one.Job.Data.(*Claim)
	}
	beats, err := b.inbox.Heartbeat(ctx, b.worker, b.lease, claims)
	if err != nil {
		return nil, err
	}
	return &loop.Beat{Extended: beats.Extended, Cancelled: beats.Cancelled}, nil
}

// Finished does nothing: the tables have no log lines.
func (b *backend) Finished(*loop.Execution) {}

// Pause returns 0: a database does not request a delay.
func (b *backend) Pause(error) time.Duration { return 0 }

// refused returns errors that a retry cannot fix as [loop.Refused]: values that cannot be stored (class 22 and 23),
// missing privileges and tables (class 42). Both common drivers expose the code of an error.
func (b *backend) refused(err error) error {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		switch state := coded.SQLState(); {
		case strings.HasPrefix(state, "22"), strings.HasPrefix(state, "23"), strings.HasPrefix(state, "42"):
			return &loop.Refused{Message: err.Error(), Cause: err}
		}
	}
	return err
}
