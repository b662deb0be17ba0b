// Package loop implements the worker without its transport: it extends leases, calls handlers, reports outcomes and
// drains. The workers over HTTP and over SQL are backends of it.
package loop

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/failure"
)

const (
	mostFetched  = 1000
	mostReported = 1000
	firstPause   = 200 * time.Millisecond
	mostPause    = 10 * time.Second
)

// Job is a fetched job.
type Job struct {
	ID      string
	Type    string
	Input   json.RawMessage
	Timeout time.Duration // 0: none
	Data    any           // owned by the backend
}

// Handler executes a job; its context carries the [Execution].
type Handler func(ctx context.Context, job *Job) (json.RawMessage, error)

// Outcome is the end of an execution: a result, a failure, or the return of the job to its queue.
type Outcome struct {
	Execution *Execution
	Result    json.RawMessage
	Failure   *failure.Failure
	Delay     *time.Duration // before the next attempt, instead of the backoff
	Requeue   bool
}

// IsSuccess reports whether the handler has returned a result.
func (o *Outcome) IsSuccess() bool { return o.Failure == nil && !o.Requeue }

// Refusal is the reason why an outcome was not recorded.
type Refusal struct {
	IsLost      bool // another worker has the job, or it has ended
	IsRetryable bool
	Message     string
}

// Refused is the error of a rejected request: repeating the request cannot succeed.
type Refused struct {
	Message string
	Cause   error
}

func (r *Refused) Error() string { return r.Message }

// Unwrap returns the error of the transport.
func (r *Refused) Unwrap() error { return r.Cause }

// Beat is the response to a heartbeat.
type Beat struct {
	Extended, Cancelled []string
	Directive           string // quiet, terminate, or empty
}

// Backend is the transport of a worker.
type Backend interface {
	// Fetch leases jobs to this worker. It may wait until there are some, or until the context ends.
	Fetch(ctx context.Context, count int) ([]Job, error)
	// Report records outcomes of one kind, and returns a refusal or nil for each outcome.
	Report(ctx context.Context, outcomes []Outcome) ([]*Refusal, error)
	// Beat extends the leases of jobs.
	Beat(ctx context.Context, executions []*Execution) (*Beat, error)
	// Finished is called before the outcome of an execution is reported.
	Finished(execution *Execution)
	// Pause returns the minimum delay before a failed request is repeated.
	Pause(err error) time.Duration
}

// Loop is a worker. Its exported fields must not be changed while it runs.
type Loop struct {
	Backend  Backend
	Handlers Handlers
	Options

	mu      sync.Mutex
	held    map[string]*Execution // by job id: running, or not reported yet
	running int                   // handlers
	quiet   bool                  // the operator's directive: fetch no more
	changed chan struct{}         // the state above has changed
	stop    context.CancelFunc    // begin to drain
	reports reporter
}

// Execution is one attempt of a job on this worker.
type Execution struct {
	Job    Job
	loop   *Loop
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Guarded by the loop's mutex.
	until  time.Time // when the lease expires, on this machine's clock
	isDone bool      // the handler has returned, or its job was requeued or lost
}

type executionKey struct{}

// ExecutionOf returns the execution of a handler's context, nil for any other context.
func ExecutionOf(ctx context.Context) *Execution {
	one, _ := ctx.Value(executionKey{}).(*Execution)
	return one
}

// Run executes jobs until the context ends, then drains. It returns an error only if the first fetch is refused.
func (l *Loop) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l.held, l.changed, l.stop = map[string]*Execution{}, make(chan struct{}, 1), stop
	l.reports = reporter{loop: l, signal: make(chan struct{}, 1)}
	background := context.WithoutCancel(ctx)
	services, end := context.WithCancel(background)
	defer end()
	var group sync.WaitGroup
	for _, service := range []func(context.Context){l.beatAll, l.reports.run} {
		group.Add(1)
		go func() {
			defer group.Done()
			service(services)
		}()
	}
	err := l.fetchAll(ctx, background)
	l.drain()
	end()
	group.Wait()
	return err
}

// drain waits for the handlers, then for their reports.
func (l *Loop) drain() {
	l.Logger.Info("draining", "running", l.count())
	if !l.waitFor(l.Grace, func() bool { return l.running == 0 }) {
		l.mu.Lock()
		for _, one := range l.held {
			one.cancel(failure.ErrDraining)
		}
		l.mu.Unlock()
		// A handler that ignores its context is abandoned: its job is returned to the queue, and its outcome is not
		// reported.
		if !l.waitFor(min(l.Grace, time.Second), func() bool { return l.running == 0 }) {
			l.release()
		}
	}
	if !l.waitFor(l.Lease, func() bool { return len(l.held) == 0 }) {
		l.Logger.Warn("some outcomes could not be reported; their jobs run again when the leases expire", "jobs", l.count())
	}
}

func (l *Loop) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// release returns the jobs whose handlers are still running to their queues.
func (l *Loop) release() {
	l.mu.Lock()
	var left []*Execution
	for _, one := range l.held {
		if !one.isDone {
			one.isDone = true
			left = append(left, one)
		}
	}
	l.mu.Unlock()
	for _, one := range left {
		l.Logger.Warn("the handler ignored the cancellation of its context; the job is returned to its queue", "job", one.Job.ID)
		l.reports.add(Outcome{Execution: one, Requeue: true})
	}
}

// waitFor waits until a condition on the loop's state holds, and reports false if the limit expires first.
func (l *Loop) waitFor(limit time.Duration, condition func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		l.mu.Lock()
		holds := condition()
		l.mu.Unlock()
		if holds {
			return true
		}
		select {
		case <-l.changed:
		case <-timer.C:
			return false
		}
	}
}

// wake makes the fetch loop, or the drain, check the state again.
func (l *Loop) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// waitBefore returns the pause before a request is repeated, and doubles the next pause up to mostPause.
func (l *Loop) waitBefore(err error, pause *time.Duration) time.Duration {
	wait := Jitter(*pause)
	*pause = min(*pause*2, mostPause)
	return max(wait, l.Backend.Pause(err))
}

// Jitter returns a random duration between half of the pause and all of it, so that workers do not retry together.
func Jitter(pause time.Duration) time.Duration { return pause/2 + rand.N(pause/2+1) }

// Sleep waits, and reports false if the context ended first.
func Sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func isRefused(err error) (*Refused, bool) {
	var refused *Refused
	return refused, errors.As(err, &refused)
}
