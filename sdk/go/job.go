package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/loop"
)

// ClaimedJob is the job that a handler executes.
type ClaimedJob struct {
	ID    string
	Type  string
	Queue string
	// Attempt is 1 for the first attempt.
	Attempt int
	// Input is the payload of the job.
	Input json.RawMessage
	// Meta is the metadata that was submitted with the job.
	Meta map[string]any
	// Timeout is the time limit of the attempt, 0 for no limit.
	Timeout time.Duration
	// ParentResults are the results of the preceding steps, if the job is a step of an OJS workflow.
	ParentResults json.RawMessage
	// Fence is the number of this claim: the server rejects requests with an older one.
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

// attempt is the state that the worker over HTTP keeps for an execution.
type attempt struct {
	remote   *remote
	job      *ClaimedJob
	hasLines atomic.Bool

	mu    sync.Mutex
	calls map[string]int
	steps map[string]json.RawMessage
}

func newAttempt(remote *remote, job *ClaimedJob) *attempt {
	a := &attempt{remote: remote, job: job, calls: map[string]int{}, steps: make(map[string]json.RawMessage, len(job.steps))}
	for _, step := range job.steps {
		a.steps[step.Name] = step.Value
	}
	return a
}

func attemptOf(execution *loop.Execution) *attempt {
	if execution == nil {
		return nil
	}
	a, _ := execution.Job.Data.(*attempt)
	return a
}

// execution returns the execution of a handler's context and its attempt. It panics for any other context.
func execution(ctx context.Context, function string) (*loop.Execution, *attempt) {
	one := loop.ExecutionOf(ctx)
	a := attemptOf(one)
	if a == nil {
		panic(fmt.Sprintf("windlass: %s needs the context with which a Worker called a handler", function))
	}
	return one, a
}

// JobFrom returns the job of a handler's context, nil for any other context.
func JobFrom(ctx context.Context) *ClaimedJob {
	if a := attemptOf(loop.ExecutionOf(ctx)); a != nil {
		return a.job
	}
	return nil
}

// Step calls the function and records its result. A later attempt of the job returns the recorded result without calling
// the function. An error is not recorded. The second step with a name in one attempt is recorded as name#2, and so on, so
// steps with the same name must be called in the same order in every attempt.
//
// If the lease was lost meanwhile, Step cancels the context of the handler and returns [ErrLost].
func Step[T any](ctx context.Context, name string, run func() (T, error)) (T, error) {
	var value T
	_, a := execution(ctx, "Step")
	name, recorded := a.step(name)
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
	encoded, err := loop.Encode(value)
	if err != nil {
		return value, err
	}
	return value, record(ctx, name, encoded)
}

// step returns the name under which this call of a step is recorded, and its recorded result, nil if there is none.
func (a *attempt) step(name string) (string, json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[name]++
	if count := a.calls[name]; count > 1 {
		name = fmt.Sprintf("%s#%d", name, count)
	}
	return name, a.steps[name]
}

func record(ctx context.Context, name string, value json.RawMessage) error {
	return send(ctx, "Step", http.MethodPost, "/steps", map[string]any{"steps": []recordedStep{{Name: name, Value: value}}})
}

// Progress reports the progress of the handler as a fraction from 0 to 1, with an optional message.
func Progress(ctx context.Context, fraction float64, message string) error {
	body := map[string]any{"progress": fraction}
	if message != "" {
		body["message"] = message
	}
	return send(ctx, "Progress", http.MethodPut, "/progress", body)
}

// send performs a fenced request for the job of a handler's context. A conflict means that the lease was lost.
func send(ctx context.Context, function, method, path string, body map[string]any) error {
	one, a := execution(ctx, function)
	body["worker_id"], body["fence"] = a.remote.worker, a.job.Fence
	c := &call{method: method, path: "/ojs/v1/jobs/" + segment(a.job.ID) + path, isSafe: true, body: body}
	err := a.remote.transport.perform(ctx, c, nil)
	if errors.Is(err, ErrConflict) {
		one.Lose()
		return ErrLost
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Logger returns a logger that writes to the log of the job, which the API, the CLI and the dashboard show.
func Logger(ctx context.Context) *slog.Logger {
	execution(ctx, "Logger")
	return slog.New(&LogHandler{ctx: ctx})
}
