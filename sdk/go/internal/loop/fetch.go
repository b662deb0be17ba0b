package loop

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/failure"
)

// A fetch that began recently is likely to be answered at once. Cutting it off could leave jobs that were just leased to
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
			if ctx.Err() != nil { // they came too late
				l.giveBack(one)
			} else {
				go one.work()
			}
		}
	}
}

// free waits until there is room for a job, and returns for how many. Outcomes that wait to be reported count beyond the
// concurrency, so that handlers do not run ahead of a server that cannot be reached.
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

// fetch sends one request. When the worker stops, a request that waits for jobs is cut off.
func (l *Loop) fetch(ctx, background context.Context, count int) ([]Job, error) {
	limited, cancel := context.WithCancel(background)
	defer cancel()
	began := time.Now()
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(max(0, recentFetch-time.Since(began)), cancel)
	})()
	return l.Backend.Fetch(limited, count)
}

// hold returns the execution of a job that was fetched; heartbeats begin to extend its lease.
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

// work calls the handler and hands over the outcome. A panic becomes a failure, and so does the end of the goroutine.
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

// finish queues the outcome of a job for its report, unless its lease was lost. `cause` is why its context has ended.
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
