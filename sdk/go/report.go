package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const mostReportBytes = 1 << 20 // of results in one request; a larger result is sent alone

// outcome is the end of an execution: a result, a failure, or the return of the job to its queue.
type outcome struct {
	execution *execution
	result    json.RawMessage
	failure   *failure
	delay     *time.Duration
	requeue   bool
}

func (o *outcome) isAck() bool { return o.failure == nil && !o.requeue }

func (o *outcome) size() int {
	if o.failure != nil {
		return len(o.failure.Message) + 1000
	}
	return len(o.result) + 100
}

type reportedJob struct {
	JobID   string          `json:"job_id"`
	Fence   int64           `json:"fence,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
	Requeue bool            `json:"requeue,omitempty"`
	DelayMS *int64          `json:"delay_ms,omitempty"`
}

type reportAnswer struct {
	Results []struct {
		JobID string `json:"job_id"`
		Error *struct {
			Code      string `json:"code"`
			Message   string `json:"message"`
			Retryable bool   `json:"retryable"`
		} `json:"error"`
	} `json:"results"`
}

// reporter sends outcomes in batches, one request at a time: those that come meanwhile join the next request.
type reporter struct {
	worker *Worker
	mu     sync.Mutex
	queue  []outcome
	signal chan struct{}
}

func newReporter(w *Worker) *reporter {
	return &reporter{worker: w, signal: make(chan struct{}, 1)}
}

func (r *reporter) add(one outcome) {
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
		for {
			batch := r.take()
			if len(batch) == 0 {
				break
			}
			r.send(ctx, batch)
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// take returns the next outcomes of one kind: all acks or all nacks.
func (r *reporter) take() []outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil
	}
	isAck, bytes := r.queue[0].isAck(), 0
	var batch, rest []outcome
	for n, one := range r.queue {
		bytes += one.size()
		if len(batch) == mostReported || (len(batch) > 0 && bytes > mostReportBytes) {
			rest = append(rest, r.queue[n:]...)
			break
		}
		if one.isAck() == isAck {
			batch = append(batch, one)
		} else {
			rest = append(rest, one)
		}
	}
	r.queue = rest
	return batch
}

// send reports a batch, again after a failure of the transport. An outcome whose lease ended meanwhile is dropped.
func (r *reporter) send(ctx context.Context, batch []outcome) {
	pause, isRepeated := firstPause, false
	for {
		batch = r.held(batch)
		if len(batch) == 0 {
			return
		}
		answer, err := r.request(ctx, batch)
		var failed *Error
		switch {
		case err == nil:
			r.settle(batch, answer, isRepeated)
			return
		case ctx.Err() != nil:
			return
		case errors.As(err, &failed) && errors.Is(err, ErrInvalid):
			r.refused(ctx, batch, failed)
			return
		}
		r.worker.logger.Warn("cannot report outcomes; will try again", "jobs", len(batch), "error", err)
		isRepeated = true
		sleep(ctx, waitBefore(err, &pause))
	}
}

// held returns the outcomes of jobs that this worker still holds.
func (r *reporter) held(batch []outcome) []outcome {
	w := r.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := batch[:0]
	for _, one := range batch {
		if w.held[one.execution.job.ID] == one.execution {
			kept = append(kept, one)
		}
	}
	return kept
}

func (r *reporter) request(ctx context.Context, batch []outcome) (*reportAnswer, error) {
	jobs := make([]reportedJob, len(batch))
	for n, one := range batch {
		jobs[n] = reportedJob{
			JobID: one.execution.job.ID, Fence: one.execution.job.Fence, Result: one.result, Error: one.failure, Requeue: one.requeue,
		}
		if one.delay != nil {
			jobs[n].DelayMS = Ptr(one.delay.Milliseconds())
		}
	}
	path := "/ojs/v1/workers/nack"
	if batch[0].isAck() {
		path = "/ojs/v1/workers/ack"
	}
	c := &call{
		method: http.MethodPost, path: path, timeout: max(r.worker.lease/2, time.Second),
		body: map[string]any{"worker_id": r.worker.id, "jobs": jobs},
	}
	var answer reportAnswer
	if err := r.worker.transport.once(ctx, c, &answer); err != nil {
		return nil, err
	}
	if len(answer.Results) != len(batch) {
		return nil, fmt.Errorf("the server answered %d of %d reports", len(answer.Results), len(batch))
	}
	return &answer, nil
}

// refused handles a request that the server does not accept as a whole: each outcome is sent alone, and a result that is
// not accepted even then becomes a failure of the job.
func (r *reporter) refused(ctx context.Context, batch []outcome, err *Error) {
	if len(batch) > 1 {
		for n := range batch {
			r.send(ctx, batch[n:n+1:n+1])
		}
		return
	}
	r.replace(batch[0], err.Detail)
}

// replace reports a failure instead of an outcome that the server refuses.
func (r *reporter) replace(one outcome, reason string) {
	log := r.worker.logger.With("job", one.execution.job.ID, "reason", reason)
	if !one.isAck() {
		log.Error("the server refuses the report of a failure; the job runs again when its lease expires")
		r.worker.forget(one.execution)
		return
	}
	log.Error("the server refuses the result")
	r.add(outcome{execution: one.execution, failure: &failure{
		Code: "result_refused", Type: "result_refused", Message: "the server refuses the result: " + reason, Retryable: Ptr(false),
	}})
}

// settle takes the answers of a batch, which come in its order.
func (r *reporter) settle(batch []outcome, answer *reportAnswer, isRepeated bool) {
	log := r.worker.logger
	done := make([]*execution, 0, len(batch))
	for n, one := range batch {
		refusal := answer.Results[n].Error
		switch {
		case refusal == nil:
			done = append(done, one.execution)
		case refusal.Code == "conflict" || refusal.Code == "not_found":
			done = append(done, one.execution)
			if isRepeated || (one.failure != nil && one.failure.Code == "cancelled") {
				log.Debug("the outcome was recorded before, or the job has ended", "job", one.execution.job.ID)
			} else {
				log.Info("the outcome was not accepted", "job", one.execution.job.ID, "reason", refusal.Message)
			}
		case refusal.Retryable:
			r.add(one)
		default:
			r.replace(one, refusal.Message)
		}
	}
	r.worker.forget(done...)
}

// forget removes executions that are reported.
func (w *Worker) forget(executions ...*execution) {
	w.mu.Lock()
	for _, one := range executions {
		if w.held[one.job.ID] == one {
			delete(w.held, one.job.ID)
		}
	}
	w.mu.Unlock()
	w.wake()
}
