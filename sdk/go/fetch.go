package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"slices"
	"time"
)

const (
	longPoll = 20 * time.Second
	// A fetch that began recently is likely to be answered at once. Cutting it off could leave jobs that the server has
	// just leased to this worker without a handler until their leases expire.
	recentFetch = time.Second
)

type fetchRequest struct {
	WorkerID string   `json:"worker_id"`
	Queues   []string `json:"queues"`
	Types    []string `json:"types"`
	Count    int      `json:"count"`
	Lease    int64    `json:"visibility_timeout_ms"`
	Wait     int64    `json:"wait_ms"`
}

// fetchAll fetches jobs and starts their handlers until the context ends. It returns an error only if the server refuses
// the first fetch.
func (w *Worker) fetchAll(ctx, background context.Context) error {
	types := make([]string, 0, len(w.handlers))
	for name := range w.handlers {
		types = append(types, name)
	}
	slices.Sort(types)
	pause, hasFetched := firstPause, false
	for {
		free := w.free(ctx)
		if ctx.Err() != nil {
			return nil
		}
		request := fetchRequest{w.id, w.queues, types, min(free, mostFetched), w.lease.Milliseconds(), longPoll.Milliseconds()}
		began := time.Now()
		jobs, err := w.fetch(ctx, background, request)
		switch {
		case err == nil:
			pause, hasFetched = firstPause, true
		case ctx.Err() != nil:
			return nil
		case !hasFetched && isPermanent(err):
			return err
		default:
			w.logger.Warn("cannot fetch jobs", "error", err)
			sleep(ctx, waitBefore(err, &pause))
		}
		for _, job := range jobs {
			one := w.hold(background, job, began.Add(w.lease))
			if ctx.Err() != nil { // they came too late
				w.giveBack(one)
			} else {
				go one.work()
			}
		}
	}
}

func isPermanent(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrForbidden) || errors.Is(err, ErrNotFound)
}

// waitBefore returns the pause before a request is repeated, and lengthens the next one.
func waitBefore(err error, pause *time.Duration) time.Duration {
	wait := jitter(*pause)
	*pause = min(*pause*2, mostPause)
	var failed *Error
	if errors.As(err, &failed) {
		wait = max(wait, min(failed.RetryAfter, mostWait))
	}
	return wait
}

// free waits until there is room for a job, and returns for how many. Outcomes that wait to be reported count beyond the
// concurrency, so that handlers do not run ahead of a server that cannot be reached.
func (w *Worker) free(ctx context.Context) int {
	for {
		w.mu.Lock()
		free := min(w.concurrency-w.running, w.concurrency+mostReported-len(w.held))
		if w.quiet {
			free = 0
		}
		w.mu.Unlock()
		if free > 0 || ctx.Err() != nil {
			return free
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
		}
	}
}

// fetch sends one request. When the worker stops, a request that waits for jobs is cut off.
func (w *Worker) fetch(ctx, background context.Context, request fetchRequest) ([]ClaimedJob, error) {
	limited, cancel := context.WithCancel(background)
	defer cancel()
	began := time.Now()
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(max(0, recentFetch-time.Since(began)), cancel)
	})()
	var answer struct {
		Jobs []ClaimedJob `json:"jobs"`
	}
	c := &call{method: http.MethodPost, path: "/ojs/v1/workers/fetch", wait: longPoll, body: request}
	err := w.transport.once(limited, c, &answer)
	return answer.Jobs, err
}

// hold returns the execution of a job that was fetched; heartbeats begin to extend its lease.
func (w *Worker) hold(background context.Context, job ClaimedJob, until time.Time) *execution {
	one := &execution{worker: w, job: job, until: until}
	one.ctx, one.cancel = context.WithCancelCause(background)
	one.prepare()
	w.mu.Lock()
	w.held[job.ID] = one
	w.running++
	w.mu.Unlock()
	return one
}

// giveBack returns a job to its queue before its handler was called.
func (w *Worker) giveBack(one *execution) {
	w.mu.Lock()
	one.isDone = true
	w.running--
	w.mu.Unlock()
	one.cancel(ErrDraining)
	w.reports.add(outcome{execution: one, requeue: true})
}

// work calls the handler and hands over the outcome. A panic becomes a failure, and so does the end of the goroutine.
func (e *execution) work() {
	defer e.cancel(nil)
	var result json.RawMessage
	err := errors.New("the handler ended its goroutine")
	ctx := context.WithValue(e.ctx, executionKey{}, e)
	if e.job.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.job.Timeout, ErrTimeout)
		defer cancel()
	}
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value, debug.Stack()}
		}
		e.worker.finish(e, result, err, context.Cause(ctx))
	}()
	handle, ok := e.worker.handlers[e.job.Type]
	if !ok {
		err = errors.New("this worker has no handler for jobs of the type " + e.job.Type)
		return
	}
	result, err = handle(ctx, e.job.Input)
}

// finish queues the outcome of a job for its report, unless its lease was lost. `cause` is why its context has ended.
func (w *Worker) finish(e *execution, result json.RawMessage, err, cause error) {
	if e.hasLines.Load() {
		w.lines.flush(context.Background()) // the server takes lines only while the job is held
	}
	w.mu.Lock()
	w.running--
	isReported := e.isDone
	e.isDone = true
	w.mu.Unlock()
	defer w.wake()
	if isReported {
		return
	}
	report := outcome{execution: e, result: result}
	if err != nil {
		switch cause {
		case ErrDraining:
			report.requeue = true
		case ErrCancelled:
			report.failure = &failure{Code: "cancelled", Type: "cancelled", Message: ErrCancelled.Error()}
		case ErrTimeout:
			report.failure = &failure{Code: "timeout", Type: "timeout", Message: "timed out after " + e.job.Timeout.String()}
		default:
			report.failure, report.delay = failureOf(err)
		}
	}
	w.reports.add(report)
}
