package windlass_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	windlass "github.com/windlass/windlass/sdk/go"
)

const patience = 20 * time.Second // longer than any test waits

// workServer is a fake server of the worker protocol. `fault` is called before every response and can replace it. The
// contract suite tests the real server.
type workServer struct {
	*httptest.Server
	t     *testing.T
	fault func(route string, body map[string]any) (status int, answer string)

	mu       sync.Mutex
	jobs     []map[string]any
	requests []recordedRequest
	changed  *sync.Cond
}

type recordedRequest struct {
	route string
	body  map[string]any
}

func newWorkServer(t *testing.T, jobs ...map[string]any) *workServer {
	s := &workServer{t: t, jobs: jobs}
	s.changed = sync.NewCond(&s.mu)
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *workServer) serve(w http.ResponseWriter, r *http.Request) {
	content, _ := io.ReadAll(r.Body)
	var body map[string]any
	_ = json.Unmarshal(content, &body)
	route := strings.TrimPrefix(r.URL.Path, "/ojs/v1/")
	if s.fault != nil {
		if status, text := s.fault(route, body); status != 0 {
			answer(w, status, text)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, recordedRequest{route, body})
	s.changed.Broadcast()
	switch route {
	case "workers/fetch":
		count := min(int(body["count"].(float64)), len(s.jobs))
		jobs := s.jobs[:count]
		s.jobs = s.jobs[count:]
		if count == 0 {
			s.mu.Unlock()
			<-r.Context().Done() // a long poll without jobs
			s.mu.Lock()
			return
		}
		encoded, _ := json.Marshal(map[string]any{"jobs": jobs})
		answer(w, 200, string(encoded))
	case "workers/heartbeat":
		encoded, _ := json.Marshal(map[string]any{"directive": "", "jobs_extended": body["active_jobs"], "jobs_cancelled": []string{}})
		answer(w, 200, string(encoded))
	case "workers/ack", "workers/nack":
		results := []map[string]any{}
		for _, one := range body["jobs"].([]any) {
			results = append(results, map[string]any{"job_id": one.(map[string]any)["job_id"], "state": "completed"})
		}
		encoded, _ := json.Marshal(map[string]any{"results": results})
		answer(w, 200, string(encoded))
	default:
		answer(w, 200, `{}`)
	}
}

// sent returns the request bodies of a route, in order.
func (s *workServer) sent(route string) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies(route)
}

func (s *workServer) bodies(route string) []map[string]any {
	var bodies []map[string]any
	for _, one := range s.requests {
		if one.route == route {
			bodies = append(bodies, one.body)
		}
	}
	return bodies
}

// reported waits for the outcomes of a number of jobs, and returns them by job id.
func (s *workServer) reported(count int) map[string]map[string]any {
	s.t.Helper()
	timer := time.AfterFunc(patience, func() { s.changed.Broadcast() })
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		outcomes := map[string]map[string]any{}
		for _, route := range []string{"workers/ack", "workers/nack"} {
			for _, body := range s.bodies(route) {
				for _, one := range body["jobs"].([]any) {
					outcomes[one.(map[string]any)["job_id"].(string)] = one.(map[string]any)
				}
			}
		}
		if len(outcomes) >= count {
			return outcomes
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d of %d outcomes", len(outcomes), count)
		}
		s.changed.Wait()
	}
}

func job(id, jobType string, more map[string]any) map[string]any {
	envelope := map[string]any{"id": id, "type": jobType, "queue": "default", "attempt": 1, "args": []any{map[string]any{}}, "fence": 7}
	for name, value := range more {
		envelope[name] = value
	}
	return envelope
}

func newWorker(t *testing.T, s *workServer, change func(*windlass.WorkerOptions)) *windlass.Worker {
	t.Helper()
	options := windlass.WorkerOptions{URL: s.URL, ID: "w", Grace: patience, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if change != nil {
		change(&options)
	}
	worker, err := windlass.NewWorker(options)
	if err != nil {
		t.Fatal(err)
	}
	return worker
}

// run runs a worker, and returns a function that stops it and returns its error.
func run(t *testing.T, worker *windlass.Worker) func() error {
	t.Helper()
	limited, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- worker.Run(limited) }()
	t.Cleanup(cancel)
	return func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			t.Fatal("the worker does not stop")
			return nil
		}
	}
}

type order struct{ Item string }

type BadInput struct{ error }

func TestOutcomesOfAllKindsAreReported(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t,
		job("ok", "orders.pick.v1", map[string]any{"args": []any{map[string]any{"item": "<a>"}}}),
		job("wrong", "orders.pick.v1", map[string]any{"args": []any{"text"}}),
		job("plain", "fail.v1", nil), job("final", "final.v1", nil), job("later", "later.v1", nil), job("panic", "panic.v1", nil),
		job("many", "many.v1", map[string]any{"args": []any{1, 2}}), job("slow", "slow.v1", map[string]any{"timeout_ms": 20}))
	worker := newWorker(t, server, nil)
	windlass.Handle(worker, "orders.pick.v1", func(ctx context.Context, in order) (map[string]any, error) {
		claimed := windlass.JobFrom(ctx)
		return map[string]any{"item": in.Item, "attempt": claimed.Attempt, "queue": claimed.Queue, "fence": claimed.Fence}, nil
	})
	windlass.Handle(worker, "fail.v1", func(context.Context, any) (any, error) { return nil, errors.New("no") })
	windlass.Handle(worker, "final.v1", func(context.Context, any) (any, error) {
		return nil, windlass.NonRetryable(fmt.Errorf("wrapped: %w", &BadInput{errors.New("bad input")}))
	})
	windlass.Handle(worker, "later.v1", func(context.Context, any) (any, error) {
		return nil, windlass.RetryAfter(errors.New("busy"), 1500*time.Millisecond)
	})
	windlass.Handle(worker, "panic.v1", func(context.Context, any) (any, error) { panic("boom") })
	windlass.Handle(worker, "many.v1", func(_ context.Context, in []int) (int, error) { return in[0] + in[1], nil })
	windlass.Handle(worker, "slow.v1", func(ctx context.Context, _ any) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	stop := run(t, worker)
	outcomes := server.reported(8)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for id, expected := range map[string]string{
		"ok":    `{"fence":7,"job_id":"ok","result":{"attempt":1,"fence":7,"item":"<a>","queue":"default"}}`,
		"plain": `{"error":{"code":"error","message":"no","type":"error"},"fence":7,"job_id":"plain"}`,
		"final": `{"error":{"code":"BadInput","message":"wrapped: bad input","retryable":false,"type":"BadInput"},"fence":7,"job_id":"final"}`,
		"later": `{"delay_ms":1500,"error":{"code":"error","message":"busy","type":"error"},"fence":7,"job_id":"later"}`,
		"many":  `{"fence":7,"job_id":"many","result":3}`,
		"slow":  `{"error":{"code":"timeout","message":"timed out after 20ms","type":"timeout"},"fence":7,"job_id":"slow"}`,
	} {
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(outcomes[id])
		if got := strings.TrimSpace(text.String()); got != expected {
			t.Errorf("%s: %s", id, got)
		}
	}
	wrong := outcomes["wrong"]["error"].(map[string]any)
	if wrong["type"] != "InvalidInput" || wrong["retryable"] != false {
		t.Errorf("wrong input: %v", wrong)
	}
	panicked := outcomes["panic"]["error"].(map[string]any)
	stack, _ := panicked["details"].(map[string]any)["stack"].(string)
	if panicked["message"] != "panic: boom" || !strings.Contains(stack, "worker_test.go") {
		t.Errorf("panic: %v", panicked)
	}
	if types := fmt.Sprint(server.sent("workers/fetch")[0]["types"]); !strings.HasPrefix(types, "[fail.v1 final.v1") {
		t.Errorf("fetched %s", types)
	}
}

func TestOutcomesOfOneMomentShareARequest(t *testing.T) {
	t.Parallel()
	var jobs []map[string]any
	for n := range 50 {
		jobs = append(jobs, job(fmt.Sprint(n), "noop.v1", nil))
	}
	server := newWorkServer(t, jobs...)
	all := make(chan struct{})
	server.fault = func(route string, _ map[string]any) (int, string) {
		if route == "workers/ack" {
			<-all // the first request blocks until every handler is done
		}
		return 0, ""
	}
	worker := newWorker(t, server, func(o *windlass.WorkerOptions) { o.Concurrency = 50 })
	var count sync.WaitGroup
	count.Add(len(jobs))
	windlass.Handle(worker, "noop.v1", func(context.Context, any) (any, error) {
		count.Done()
		return nil, nil
	})
	stop := run(t, worker)
	count.Wait()
	close(all)
	server.reported(50)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if requests := len(server.sent("workers/ack")); requests > 25 {
		t.Errorf("%d requests for 50 outcomes", requests)
	}
}

func TestReportsSurviveAServerInTrouble(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t, job("a", "noop.v1", nil))
	failures := 0
	server.fault = func(route string, _ map[string]any) (int, string) {
		if route == "workers/ack" && failures < 2 {
			failures++
			return 503, `{"error": {"code": "backend_error", "message": "try again", "retryable": true}}`
		}
		if route == "workers/ack" {
			return 200, `{"results": [{"job_id": "a", "error": {"code": "conflict", "message": "ended", "retryable": false}}]}`
		}
		return 0, ""
	}
	worker := newWorker(t, server, nil)
	ran := make(chan struct{})
	windlass.Handle(worker, "noop.v1", func(context.Context, any) (any, error) {
		close(ran)
		return nil, nil
	})
	stop := run(t, worker)
	<-ran
	if err := stop(); err != nil { // the drain waits for the report
		t.Fatal(err)
	}
	if failures != 2 {
		t.Errorf("%d failures", failures)
	}
}

func TestAResultThatIsRefusedFailsTheJob(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t, job("a", "noop.v1", nil), job("b", "noop.v1", nil))
	server.fault = func(route string, body map[string]any) (int, string) {
		if route == "workers/ack" {
			return 413, `{"error": {"code": "payload_too_large", "message": "result is too large", "retryable": false}}`
		}
		return 0, ""
	}
	worker := newWorker(t, server, nil)
	windlass.Handle(worker, "noop.v1", func(context.Context, any) (any, error) { return "large", nil })
	stop := run(t, worker)
	outcomes := server.reported(2)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for id, one := range outcomes {
		failure := one["error"].(map[string]any)
		if failure["retryable"] != false || !strings.Contains(failure["message"].(string), "result is too large") {
			t.Errorf("%s: %v", id, one)
		}
	}
}

func TestALeaseThatCannotBeExtendedIsLost(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t, job("a", "hang.v1", nil))
	server.fault = func(route string, _ map[string]any) (int, string) {
		if route == "workers/heartbeat" {
			return 503, `{"error": {"code": "backend_error", "message": "try again", "retryable": true}}`
		}
		return 0, ""
	}
	worker := newWorker(t, server, func(o *windlass.WorkerOptions) { o.Lease = 150 * time.Millisecond })
	causes := make(chan error, 1)
	windlass.Handle(worker, "hang.v1", func(ctx context.Context, _ any) (any, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "late", nil
	})
	stop := run(t, worker)
	if cause := <-causes; cause != windlass.ErrLost {
		t.Errorf("cause %v", cause)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if reports := append(server.sent("workers/ack"), server.sent("workers/nack")...); len(reports) > 0 {
		t.Errorf("reported %v", reports)
	}
}

func TestHeartbeatsEndHandlers(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		answer string
		cause  error
		code   string
	}{
		"cancelled": {`{"jobs_extended": [], "jobs_cancelled": ["a"]}`, windlass.ErrCancelled, "cancelled"},
		"lost":      {`{"jobs_extended": [], "jobs_cancelled": []}`, windlass.ErrLost, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := newWorkServer(t, job("a", "hang.v1", nil))
			server.fault = func(route string, body map[string]any) (int, string) {
				if active, _ := body["active_jobs"].([]any); route == "workers/heartbeat" && len(active) > 0 {
					return 200, one.answer
				}
				return 0, ""
			}
			worker := newWorker(t, server, func(o *windlass.WorkerOptions) { o.Lease = 3 * time.Second })
			causes := make(chan error, 1)
			windlass.Handle(worker, "hang.v1", func(ctx context.Context, _ any) (any, error) {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return nil, ctx.Err()
			})
			stop := run(t, worker)
			if cause := <-causes; cause != one.cause {
				t.Errorf("cause %v", cause)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			reports := server.sent("workers/nack")
			if one.code == "" && len(reports) > 0 || one.code != "" && !strings.Contains(fmt.Sprint(reports), "code:"+one.code) {
				t.Errorf("reported %v", reports)
			}
		})
	}
}

func TestADrainGivesBackWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t, job("finishes", "finish.v1", nil), job("hangs", "hang.v1", nil), job("ignores", "ignore.v1", nil))
	worker := newWorker(t, server, func(o *windlass.WorkerOptions) { o.Grace = 100 * time.Millisecond })
	var started sync.WaitGroup
	started.Add(3)
	leave := make(chan struct{})
	defer close(leave)
	drain := make(chan struct{})
	windlass.Handle(worker, "finish.v1", func(context.Context, any) (string, error) {
		started.Done()
		<-drain
		return "done", nil
	})
	windlass.Handle(worker, "hang.v1", func(ctx context.Context, _ any) (any, error) {
		started.Done()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	windlass.Handle(worker, "ignore.v1", func(context.Context, any) (any, error) {
		started.Done()
		<-leave
		return nil, nil
	})
	stop := run(t, worker)
	started.Wait()
	close(drain)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	outcomes := server.reported(3)
	if outcomes["finishes"]["result"] != "done" || outcomes["hangs"]["requeue"] != true || outcomes["ignores"]["requeue"] != true {
		t.Errorf("outcomes %v", outcomes)
	}
	beats := server.sent("workers/heartbeat")
	if beats[len(beats)-1]["state"] != "stopped" {
		t.Errorf("heartbeats %v", beats)
	}
}

func TestJobsThatComeDuringTheDrainAreGivenBack(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t, job("late", "noop.v1", nil))
	fetching, answered := make(chan struct{}), make(chan struct{})
	server.fault = func(route string, _ map[string]any) (int, string) {
		if route == "workers/fetch" {
			close(fetching)
			<-answered
		}
		return 0, ""
	}
	worker := newWorker(t, server, nil)
	windlass.Handle(worker, "noop.v1", func(context.Context, any) (any, error) {
		t.Error("the handler was called")
		return nil, nil
	})
	limited, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- worker.Run(limited) }()
	<-fetching
	cancel()
	close(answered)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if outcomes := server.reported(1); outcomes["late"]["requeue"] != true {
		t.Errorf("outcomes %v", outcomes)
	}
}

func TestStepsAreRecordedOnce(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t, job("a", "steps.v1", map[string]any{
		"attempt": 2, "steps": []any{map[string]any{"name": "pack", "value": 1}},
	}))
	worker := newWorker(t, server, nil)
	windlass.Handle(worker, "steps.v1", func(ctx context.Context, _ any) (int, error) {
		first, err := windlass.Step(ctx, "pack", func() (int, error) { return 100, nil })
		if err != nil {
			return 0, err
		}
		second, err := windlass.Step(ctx, "pack", func() (int, error) { return 2, nil })
		windlass.Logger(ctx).With("order", 5).Warn("packed", "boxes", 2)
		if err := windlass.Progress(ctx, 0.5, "half"); err != nil {
			return 0, err
		}
		return first + second, err
	})
	stop := run(t, worker)
	if outcomes := server.reported(1); outcomes["a"]["result"] != 3.0 {
		t.Errorf("outcomes %v", outcomes)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	steps := fmt.Sprint(server.sent("jobs/a/steps"))
	if steps != "[map[fence:7 steps:[map[name:pack#2 value:2]] worker_id:w]]" {
		t.Errorf("recorded %s", steps)
	}
	if progress := fmt.Sprint(server.sent("jobs/a/progress")); progress != "[map[fence:7 message:half progress:0.5 worker_id:w]]" {
		t.Errorf("progress %s", progress)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	var routes []string
	for _, one := range server.requests {
		if one.route == "workers/logs" || one.route == "workers/ack" {
			routes = append(routes, one.route)
		}
	}
	if fmt.Sprint(routes) != "[workers/logs workers/ack]" {
		t.Errorf("the log came after the outcome: %v", routes)
	}
	line := server.bodies("workers/logs")[0]["lines"].([]any)[0].(map[string]any)
	if line["message"] != "packed order=5 boxes=2" || line["level"] != "warning" || line["job_id"] != "a" || line["fence"] != 7.0 {
		t.Errorf("line %v", line)
	}
}

func TestALogLineThatIsRefusedIsNamedAndTheJobEndsAsUsual(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t, job("a", "talk.v1", nil))
	server.fault = func(route string, _ map[string]any) (int, string) {
		if route == "workers/logs" {
			return 200, `{"accepted": 0, "refused": [{"index": 0, "error": {"code": "invalid_request", "message": "lines[0].at is wrong"}}]}`
		}
		return 0, ""
	}
	var own lockedBuffer
	worker := newWorker(t, server, func(options *windlass.WorkerOptions) {
		options.Logger = slog.New(slog.NewTextHandler(&own, nil))
	})
	windlass.Handle(worker, "talk.v1", func(ctx context.Context, _ any) (any, error) {
		windlass.Logger(ctx).Info("hello")
		return nil, nil
	})
	stop := run(t, worker)
	server.reported(1)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if text := own.String(); !strings.Contains(text, `msg="log lines were refused" worker=w lines=1 error="lines[0].at is wrong"`) {
		t.Errorf("logged %s", text)
	}
}

func TestManyLongLogLinesAreSentInSeveralRequests(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t, job("a", "talk.v1", nil))
	worker := newWorker(t, server, nil)
	const count = 300
	windlass.Handle(worker, "talk.v1", func(ctx context.Context, _ any) (any, error) {
		for range count {
			windlass.Logger(ctx).Info(strings.Repeat("\x01", 20_000)) // six bytes each in JSON
		}
		return nil, nil
	})
	stop := run(t, worker)
	server.reported(1)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, body := range server.sent("workers/logs") {
		lines := body["lines"].([]any)
		total += len(lines)
		if encoded, _ := json.Marshal(lines); len(encoded) > 5_000_000 {
			t.Errorf("a request of %d bytes", len(encoded))
		}
	}
	if total != count || len(server.sent("workers/logs")) < 2 {
		t.Errorf("%d lines in %d requests", total, len(server.sent("workers/logs")))
	}
}

// lockedBuffer is a buffer that several goroutines may write to.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func TestAHandlerServesItsTypeOrAllTypesThatBeginAlike(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t, job("a", "orders.pick.v1", nil), job("b", "orders.pack.v1", nil), job("c", "orders.v1", nil))
	worker := newWorker(t, server, nil)
	for _, name := range []string{"orders.%", "orders.p%", "orders.pack.v1"} {
		windlass.Handle(worker, name, func(context.Context, any) (string, error) { return name, nil })
	}
	stop := run(t, worker)
	outcomes := server.reported(3)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for id, name := range map[string]string{"a": "orders.p%", "b": "orders.pack.v1", "c": "orders.%"} {
		if outcomes[id]["result"] != name {
			t.Errorf("%s: %v", id, outcomes[id])
		}
	}
	if types := fmt.Sprint(server.sent("workers/fetch")[0]["types"]); types != "[orders.% orders.p% orders.pack.v1]" {
		t.Errorf("fetched %s", types)
	}
}

func TestAStepAfterALostLeaseEndsTheHandler(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t, job("a", "steps.v1", nil))
	server.fault = func(route string, _ map[string]any) (int, string) {
		if route == "jobs/a/steps" {
			return 409, `{"error": {"code": "conflict", "message": "the claim is no longer held", "retryable": false}}`
		}
		return 0, ""
	}
	worker := newWorker(t, server, nil)
	results := make(chan error, 2)
	windlass.Handle(worker, "steps.v1", func(ctx context.Context, _ any) (any, error) {
		_, err := windlass.Step(ctx, "a", func() (int, error) { return 1, nil })
		results <- err
		results <- context.Cause(ctx)
		return nil, err
	})
	stop := run(t, worker)
	for range 2 {
		if err := <-results; err != windlass.ErrLost {
			t.Errorf("error %v", err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if reports := server.sent("workers/nack"); len(reports) > 0 {
		t.Errorf("reported %v", reports)
	}
}

func TestTheOperatorCanStopAWorker(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t)
	server.fault = func(route string, _ map[string]any) (int, string) {
		if route == "workers/heartbeat" {
			return 200, `{"directive": "terminate", "jobs_extended": [], "jobs_cancelled": []}`
		}
		return 0, ""
	}
	worker := newWorker(t, server, func(o *windlass.WorkerOptions) { o.Lease = 150 * time.Millisecond })
	windlass.Handle(worker, "noop.v1", func(context.Context, any) (any, error) { return nil, nil })
	if err := worker.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAWorkerWithAWrongKeyEnds(t *testing.T) {
	t.Parallel()
	server := newWorkServer(t)
	server.fault = func(string, map[string]any) (int, string) {
		return 401, `{"error": {"code": "unauthorized", "message": "send a key", "retryable": false}}`
	}
	worker := newWorker(t, server, nil)
	windlass.Handle(worker, "noop.v1", func(context.Context, any) (any, error) { return nil, nil })
	if err := worker.Run(ctx); !errors.Is(err, windlass.ErrUnauthorized) {
		t.Errorf("error %v", err)
	}
	if err := newWorker(t, server, nil).Run(ctx); err == nil {
		t.Error("a worker without handlers runs")
	}
}
