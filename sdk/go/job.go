package windlass

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// ClaimedJob is a job as its handler sees it.
type ClaimedJob struct {
	ID    string
	Type  string
	Queue string
	// Attempt is 1 for the first attempt.
	Attempt int
	// Input is the payload of the job.
	Input json.RawMessage
	// Meta are the values that were given with the job.
	Meta map[string]any
	// Timeout is the time that the attempt may take, 0 for no limit.
	Timeout time.Duration
	// ParentResults are the results of the steps before this one, if the job is a step of an OJS workflow.
	ParentResults json.RawMessage
	// Fence is the number of this claim: the server refuses everything from an earlier one.
	Fence int64

	steps []recordedStep
}

type recordedStep struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// UnmarshalJSON reads the envelope of a fetched job.
func (j *ClaimedJob) UnmarshalJSON(data []byte) error {
	var envelope struct {
		ID            string            `json:"id"`
		Type          string            `json:"type"`
		Queue         string            `json:"queue"`
		Attempt       int               `json:"attempt"`
		Args          []json.RawMessage `json:"args"`
		Meta          map[string]any    `json:"meta"`
		TimeoutMS     float64           `json:"timeout_ms"`
		ParentResults json.RawMessage   `json:"parent_results"`
		Fence         int64             `json:"fence"`
		Steps         []recordedStep    `json:"steps"`
	}
	if err := json.Unmarshal(data, &envelope); err != nil {
		return err
	}
	*j = ClaimedJob{
		ID: envelope.ID, Type: envelope.Type, Queue: envelope.Queue, Attempt: max(envelope.Attempt, 1), Meta: envelope.Meta,
		Timeout: time.Duration(envelope.TimeoutMS * float64(time.Millisecond)), ParentResults: envelope.ParentResults,
		Fence: envelope.Fence, steps: envelope.Steps,
	}
	if len(envelope.Args) == 1 {
		j.Input = envelope.Args[0]
		return nil
	}
	if envelope.Args == nil {
		envelope.Args = []json.RawMessage{}
	}
	input, err := json.Marshal(envelope.Args)
	j.Input = input
	return err
}

// execution is one attempt of a job on this worker.
type execution struct {
	worker   *Worker
	job      ClaimedJob
	ctx      context.Context
	cancel   context.CancelCauseFunc
	hasLines atomic.Bool

	// Guarded by the worker's mutex.
	until  time.Time // the lease, on this machine's clock
	isDone bool      // the handler has returned, or its job was given back or lost

	mu    sync.Mutex
	calls map[string]int
	steps map[string]json.RawMessage
}

type executionKey struct{}

func (e *execution) prepare() {
	e.calls, e.steps = map[string]int{}, make(map[string]json.RawMessage, len(e.job.steps))
	for _, step := range e.job.steps {
		e.steps[step.Name] = step.Value
	}
}

func executionOf(ctx context.Context) *execution {
	one, _ := ctx.Value(executionKey{}).(*execution)
	return one
}

func mustExecution(ctx context.Context, function string) *execution {
	one := executionOf(ctx)
	if one == nil {
		panic(fmt.Sprintf("windlass: %s needs the context that a handler was called with", function))
	}
	return one
}

// JobFrom returns the job of a handler's context, nil for any other context.
func JobFrom(ctx context.Context) *ClaimedJob {
	if one := executionOf(ctx); one != nil {
		return &one.job
	}
	return nil
}

// Step calls the function and records its result. A later attempt of the job returns the recorded result without calling
// the function. An error is not recorded. The second step with a name in one attempt is recorded as name#2, and so on, so
// steps with one name must come in the same order in every attempt.
//
// If the lease was lost meanwhile, Step ends the context of the handler and returns [ErrLost].
func Step[T any](ctx context.Context, name string, run func() (T, error)) (T, error) {
	var value T
	one := mustExecution(ctx, "Step")
	name, recorded := one.step(name)
	if recorded != nil {
		if err := json.Unmarshal(recorded, &value); err != nil {
			return value, NonRetryable(fmt.Errorf("the recorded result of the step %s does not fit %T: %w", name, value, err))
		}
		return value, nil
	}
	if err := context.Cause(ctx); err != nil {
		return value, err
	}
	value, err := run()
	if err != nil {
		return value, err
	}
	encoded, err := encodeResult(value)
	if err != nil {
		return value, err
	}
	return value, one.record(ctx, name, encoded)
}

// step returns the name of this call of a step, and its recorded result.
func (e *execution) step(name string) (string, json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[name]++
	if count := e.calls[name]; count > 1 {
		name = fmt.Sprintf("%s#%d", name, count)
	}
	return name, e.steps[name]
}

func (e *execution) record(ctx context.Context, name string, value json.RawMessage) error {
	return e.send(ctx, &call{
		method: http.MethodPost, path: "/ojs/v1/jobs/" + segment(e.job.ID) + "/steps", isSafe: true,
		body: map[string]any{
			"worker_id": e.worker.id, "fence": e.job.Fence, "steps": []recordedStep{{Name: name, Value: value}},
		},
	})
}

// Progress reports how far the handler is, from 0 to 1, with a message for people.
func Progress(ctx context.Context, fraction float64, message string) error {
	one := mustExecution(ctx, "Progress")
	body := map[string]any{"progress": fraction, "worker_id": one.worker.id, "fence": one.job.Fence}
	if message != "" {
		body["message"] = message
	}
	return one.send(ctx, &call{
		method: http.MethodPut, path: "/ojs/v1/jobs/" + segment(one.job.ID) + "/progress", isSafe: true, body: body,
	})
}

// send performs a fenced request for this execution. A conflict means that another worker has the job.
func (e *execution) send(ctx context.Context, c *call) error {
	err := e.worker.transport.perform(ctx, c, nil)
	if isConflict(err) {
		e.worker.lose(e)
		return ErrLost
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Logger returns a logger whose lines become log lines of the job: in the API, the CLI and the dashboard.
func Logger(ctx context.Context) *slog.Logger {
	mustExecution(ctx, "Logger")
	return slog.New(&LogHandler{ctx: ctx})
}
