package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/failure"
	"github.com/windlass/windlass/sdk/go/internal/loop"
)

// A fetch waits for at most half of a lease. The jobs of a worker that hangs become due again two thirds of a lease
// later at the earliest. Its last fetch must have ended by then, or the server would lease these jobs to the same
// worker again.
const longPoll = 20 * time.Second

// remote implements [loop.Backend] over HTTP, with the routes below /ojs/v1.
type remote struct {
	transport *transport
	worker    string
	queues    []string
	types     []string
	lease     time.Duration
	lines     *lineSender
}

type fetchRequest struct {
	WorkerID string   `json:"worker_id"`
	Queues   []string `json:"queues"`
	Types    []string `json:"types"`
	Count    int      `json:"count"`
	Lease    int64    `json:"visibility_timeout_ms"`
	Wait     int64    `json:"wait_ms"`
}

// Fetch leases jobs. If there are none, the server holds the request until there are some, or until the wait expires.
func (r *remote) Fetch(ctx context.Context, count int) ([]loop.Job, error) {
	var answer struct {
		Jobs []ClaimedJob `json:"jobs"`
	}
	wait := min(longPoll, r.lease/2)
	c := &call{
		method: http.MethodPost, path: "/ojs/v1/workers/fetch", wait: wait,
		body: fetchRequest{r.worker, r.queues, r.types, count, r.lease.Milliseconds(), wait.Milliseconds()},
	}
	if err := r.transport.once(ctx, c, &answer); err != nil {
		return nil, refusedFor(err, ErrInvalid, ErrUnauthorized, ErrForbidden, ErrNotFound)
	}
	jobs := make([]loop.Job, len(answer.Jobs))
	for n := range answer.Jobs {
		job := &answer.Jobs[n]
		jobs[n] = loop.Job{ID: job.ID, Type: job.Type, Input: job.Input, Timeout: job.Timeout, Data: newAttempt(r, job)}
	}
	return jobs, nil
}

// refusedFor returns errors of these kinds as [loop.Refused]: repeating the request cannot succeed.
func refusedFor(err error, kinds ...error) error {
	var failed *Error
	if errors.As(err, &failed) {
		for _, kind := range kinds {
			if errors.Is(err, kind) {
				return &loop.Refused{Message: failed.Detail, Cause: err}
			}
		}
	}
	return err
}

type reportedJob struct {
	JobID   string           `json:"job_id"`
	Fence   int64            `json:"fence,omitempty"`
	Result  json.RawMessage  `json:"result,omitempty"`
	Error   *failure.Failure `json:"error,omitempty"`
	Requeue bool             `json:"requeue,omitempty"`
	DelayMS *int64           `json:"delay_ms,omitempty"`
}

// Report sends acks or nacks.
func (r *remote) Report(ctx context.Context, outcomes []loop.Outcome) ([]*loop.Refusal, error) {
	jobs := make([]reportedJob, len(outcomes))
	for n, one := range outcomes {
		jobs[n] = reportedJob{
			JobID: one.Execution.Job.ID, Fence: attemptOf(one.Execution).job.Fence,
			Result: one.Result, Error: one.Failure, Requeue: one.Requeue,
		}
		if one.Delay != nil {
			jobs[n].DelayMS = Ptr(one.Delay.Milliseconds())
		}
	}
	path := "/ojs/v1/workers/nack"
	if outcomes[0].IsSuccess() {
		path = "/ojs/v1/workers/ack"
	}
	c := &call{
		method: http.MethodPost, path: path, timeout: max(r.lease/2, time.Second),
		body: map[string]any{"worker_id": r.worker, "jobs": jobs},
	}
	var answer struct {
		Results []struct {
			Error *struct {
				Code      string `json:"code"`
				Message   string `json:"message"`
				Retryable bool   `json:"retryable"`
			} `json:"error"`
		} `json:"results"`
	}
	if err := r.transport.once(ctx, c, &answer); err != nil {
		return nil, refusedFor(err, ErrInvalid)
	}
	refusals := make([]*loop.Refusal, len(answer.Results))
	for n, one := range answer.Results {
		if one.Error != nil {
			isLost := one.Error.Code == "conflict" || one.Error.Code == "not_found"
			refusals[n] = &loop.Refusal{IsLost: isLost, IsRetryable: one.Error.Retryable, Message: one.Error.Message}
		}
	}
	return refusals, nil
}

type heartbeat struct {
	WorkerID string   `json:"worker_id"`
	Active   []string `json:"active_jobs"`
	Lease    int64    `json:"visibility_timeout_ms"`
	State    string   `json:"state,omitempty"`
}

// Beat extends leases.
func (r *remote) Beat(ctx context.Context, executions []*loop.Execution) (*loop.Beat, error) {
	active := make([]string, len(executions))
	for n, one := range executions {
		active[n] = one.Job.ID
	}
	var answer struct {
		Directive string   `json:"directive"`
		Extended  []string `json:"jobs_extended"`
		Cancelled []string `json:"jobs_cancelled"`
	}
	if err := r.beat(ctx, heartbeat{WorkerID: r.worker, Active: active, Lease: r.lease.Milliseconds()}, &answer); err != nil {
		return nil, err
	}
	return &loop.Beat{Extended: answer.Extended, Cancelled: answer.Cancelled, Directive: answer.Directive}, nil
}

func (r *remote) beat(ctx context.Context, body heartbeat, answer any) error {
	return r.transport.once(ctx, &call{method: http.MethodPost, path: "/ojs/v1/workers/heartbeat", body: body}, answer)
}

// Finished sends the log lines of an execution: the server accepts them only while the job is held.
func (r *remote) Finished(execution *loop.Execution) {
	if attemptOf(execution).hasLines.Load() {
		r.lines.flush(context.Background())
	}
}

// Pause returns the Retry-After of a response, at most mostWait.
func (r *remote) Pause(err error) time.Duration {
	var failed *Error
	if errors.As(err, &failed) {
		return min(failed.RetryAfter, mostWait)
	}
	return 0
}
