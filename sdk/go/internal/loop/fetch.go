package loop

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/failure"
)

// A fetch that was sent recently is likely to be answered soon. Cancelling it could leave jobs that were just leased to
// this worker without a handler until their leases expire.
const recentFetch = time.Second

// fetchAll fetches jobs and starts their handlers until the context ends. It returns an error only if the first fetch is
// refused.
func (l *Loop) fetchAll(ctx, background context.Context) error {
	pause, hasFetched := firstPause, false
	for {
		free := l.free(ctx)
		if ctx.Err() != nil {
			return nil
		}
		began := time.Now()
		jobs, err := l.fetch(ctx, background, min(free, mostFetched))
		if err == nil {
			pause, hasFetched = firstPause, true
		} else if ctx.Err() == nil {
			if refused, ok := isRefused(err); ok && !hasFetched {
				return refused.Cause
			}
			l.Logger.Warn("cannot fetch jobs", "error", err)
			Sleep(ctx, l.waitBefore(err, &pause))
		}
		for _, job := range jobs {
			one := l.hold(background, job, began.Add(l.Lease))
			if ctx.Err() != nil { // the worker is stopping
				l.giveBack(one)
			} else {
				go one.work()
			}
		}
	}
}

// free waits until there is capacity for a job, and returns the number of jobs to fetch. Unreported outcomes reduce it
// once there are more than mostReported, so that handlers do not run far ahead of a server that cannot be reached.
func (l *Loop) free(ctx context.Context) int {
	for {
		l.mu.Lock()
		free := min(l.Concurrency-l.running, l.Concurrency+mostReported-len(l.held))
		if l.quiet {
			free = 0
		}
		l.mu.Unlock()
		if free > 0 || ctx.Err() != nil {
			return free
		}
		select {
		case <-l.changed:
		case <-ctx.Done():
		}
	}
}

// fetch sends one request. When the worker stops, a request that waits for jobs is cancelled once it is recentFetch
// old.
func (l *Loop) fetch(ctx, background context.Context, count int) ([]Job, error) {
	limited, cancel := context.WithCancel(background)
	defer cancel()
	began := time.Now()
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(max(0, recentFetch-time.Since(began)), cancel)
	})()
	return l.Backend.Fetch(limited, count)
}

// hold registers a fetched job, so that heartbeats extend its lease, and returns its execution.
func (l *Loop) hold(background context.Context, job Job, until time.Time) *Execution {
	one := &Execution{Job: job, loop: l, until: until}
	one.ctx, one.cancel = context.WithCancelCause(background)
	l.mu.Lock()
	l.held[job.ID] = one
	l.running++
	l.mu.Unlock()
	return one
}

// giveBack returns a job to its queue before its handler was called.
func (l *Loop) giveBack(one *Execution) {
	l.mu.Lock()
	one.isDone = true
	l.running--
	l.mu.Unlock()
	one.cancel(failure.ErrDraining)
	l.reports.add(Outcome{Execution: one, Requeue: true})
}

// work calls the handler and queues the outcome. A panic becomes a failure, and so does a call of runtime.Goexit.
func (e *Execution) work() {
	defer e.cancel(nil)
	var result json.RawMessage
	err := errors.New("the handler ended its goroutine")
	ctx := context.WithValue(e.ctx, executionKey{}, e)
	if e.Job.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.Job.Timeout, failure.ErrTimeout)
		defer cancel()
	}
	defer func() {
		if value := recover(); value != nil {
			err = &failure.Panic{Value: value, Stack: debug.Stack()}
		}
		e.finish(result, err, context.Cause(ctx))
	}()
	handle := e.loop.Handlers.find(e.Job.Type)
	if handle == nil {
		err = errors.New("this worker has no handler for jobs of the type " + e.Job.Type)
		return
	}
	result, err = handle(ctx, &e.Job)
}

// finish queues the outcome of a job for its report, unless the job was lost or returned to its queue. `cause` is the
// cause with which the context was cancelled.
func (e *Execution) finish(result json.RawMessage, err, cause error) {
	l := e.loop
	l.Backend.Finished(e)
	l.mu.Lock()
	l.running--
	isReported := e.isDone
	e.isDone = true
	l.mu.Unlock()
	defer l.wake()
	if isReported {
		return
	}
	outcome := Outcome{Execution: e, Result: result}
	if err != nil {
		switch cause {
		case failure.ErrDraining:
			outcome.Requeue = true
		case failure.ErrCancelled:
			outcome.Failure = &failure.Failure{Code: "cancelled", Type: "cancelled", Message: cause.Error()}
		case failure.ErrTimeout:
			message := "timed out after " + e.Job.Timeout.String()
			outcome.Failure = &failure.Failure{Code: "timeout", Type: "timeout", Message: message}
		default:
			outcome.Failure, outcome.Delay = failure.Of(err)
		}
	}
	l.reports.add(outcome)
}
