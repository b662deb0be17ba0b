package loop

import (
	"context"
	"fmt"
	"sync"

	"github.com/windlass/windlass/sdk/go/internal/failure"
)

const mostReportBytes = 1 << 20 // of results in one request; a larger result is sent alone

func (o *Outcome) size() int {
	if o.Failure != nil {
		return len(o.Failure.Message) + 1000
	}
	return len(o.Result) + 100
}

// kind returns the kind of an outcome as a number; all outcomes of a request have the same kind.
func (o *Outcome) kind() int {
	switch {
	case o.Requeue:
		return 2
	case o.Failure != nil:
		return 1
	}
	return 0
}

// reporter sends outcomes in batches, with one request in flight: outcomes added meanwhile go into the next request.
type reporter struct {
	loop   *Loop
	mu     sync.Mutex
	queue  []Outcome
	signal chan struct{}
}

func (r *reporter) add(one Outcome) {
	r.mu.Lock()
	r.queue = append(r.queue, one)
	r.mu.Unlock()
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

func (r *reporter) run(ctx context.Context) {
	for {
		select {
		case <-r.signal:
		case <-ctx.Done():
			return
		}
		for batch := r.take(); len(batch) > 0 && ctx.Err() == nil; batch = r.take() {
			r.send(ctx, batch)
		}
	}
}

// take removes and returns the next outcomes of one kind.
func (r *reporter) take() []Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil
	}
	kind, bytes := r.queue[0].kind(), 0
	var batch, rest []Outcome
	for n, one := range r.queue {
		bytes += one.size()
		if len(batch) == mostReported || (len(batch) > 0 && bytes > mostReportBytes) {
			rest = append(rest, r.queue[n:]...)
			break
		}
		if one.kind() == kind {
			batch = append(batch, one)
		} else {
			rest = append(rest, one)
		}
	}
	r.queue = rest
	return batch
}

// send reports a batch, and retries after transport errors. Outcomes of jobs that were lost meanwhile are dropped.
func (r *reporter) send(ctx context.Context, batch []Outcome) {
	pause, isRepeated := firstPause, false
	for {
		batch = r.held(batch)
		if len(batch) == 0 {
			return
		}
		refusals, err := r.loop.Backend.Report(ctx, batch)
		if err == nil && len(refusals) != len(batch) {
			err = fmt.Errorf("the response has %d results for %d reports", len(refusals), len(batch))
		}
		if err == nil {
			r.settle(batch, refusals, isRepeated)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if refused, ok := isRefused(err); ok {
			r.refused(ctx, batch, refused)
			return
		}
		r.loop.Logger.Warn("cannot report outcomes; will try again", "jobs", len(batch), "error", err)
		isRepeated = true
		Sleep(ctx, r.loop.waitBefore(err, &pause))
	}
}

// held returns the outcomes of jobs that this worker still holds.
func (r *reporter) held(batch []Outcome) []Outcome {
	l := r.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := batch[:0]
	for _, one := range batch {
		if l.held[one.Execution.Job.ID] == one.Execution {
			kept = append(kept, one)
		}
	}
	return kept
}

// refused handles a rejected request: it sends each outcome alone, and a result that is rejected even then becomes a
// failure of the job.
func (r *reporter) refused(ctx context.Context, batch []Outcome, refused *Refused) {
	if len(batch) > 1 {
		for n := range batch {
			r.send(ctx, batch[n:n+1:n+1])
		}
		return
	}
	r.replace(batch[0], refused.Message)
}

// replace reports a failure in place of a result that was refused. The refused report of a failure is dropped.
func (r *reporter) replace(one Outcome, reason string) {
	log := r.loop.Logger.With("job", one.Execution.Job.ID, "reason", reason)
	if !one.IsSuccess() {
		log.Error("the report of a failure is refused; the job runs again when its lease expires")
		r.loop.forget(one.Execution)
		return
	}
	log.Error("the result is refused")
	r.add(Outcome{Execution: one.Execution, Failure: &failure.Failure{
		Code: "result_refused", Type: "result_refused", Message: "the result is refused: " + reason, Retryable: new(bool),
	}})
}

// settle processes the results of a batch, which are in the order of its outcomes.
func (r *reporter) settle(batch []Outcome, refusals []*Refusal, isRepeated bool) {
	log := r.loop.Logger
	done := make([]*Execution, 0, len(batch))
	for n, one := range batch {
		refusal := refusals[n]
		switch {
		case refusal == nil:
			done = append(done, one.Execution)
		case refusal.IsLost:
			done = append(done, one.Execution)
			if isRepeated || (one.Failure != nil && one.Failure.Code == "cancelled") {
				log.Debug("the outcome was recorded before, or the job has ended", "job", one.Execution.Job.ID)
			} else {
				log.Info("the outcome was not accepted", "job", one.Execution.Job.ID, "reason", refusal.Message)
			}
		case refusal.IsRetryable:
			r.add(one)
		default:
			r.replace(one, refusal.Message)
		}
	}
	r.loop.forget(done...)
}

// forget removes executions whose outcomes need no further report.
func (l *Loop) forget(executions ...*Execution) {
	l.mu.Lock()
	for _, one := range executions {
		if l.held[one.Job.ID] == one {
			delete(l.held, one.Job.ID)
		}
	}
	l.mu.Unlock()
	l.wake()
}
