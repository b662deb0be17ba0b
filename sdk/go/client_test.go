package windlass_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	windlass "github.com/windlass/windlass/sdk/go"
)

var ctx = context.Background()

// serve starts a server with one handler, and returns a client for it.
func serve(t *testing.T, handler http.HandlerFunc, options ...windlass.Option) *windlass.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := windlass.NewClient(server.URL, options...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func TestAListReadsAllPages(t *testing.T) {
	var queries []string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.Query().Encode())
		if r.URL.Query().Get("before") == "" {
			answer(w, 200, `{"data": [{"id": "c"}, {"id": "b"}], "next": "b"}`)
			return
		}
		answer(w, 200, `{"data": [{"id": "a"}], "next": null}`)
	})
	var ids []string
	for run, err := range client.Runs.List(ctx, &windlass.RunsListParams{Status: []string{"failed", "timeout"}, Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.ID)
	}
	if got := strings.Join(ids, ""); got != "cba" {
		t.Errorf("read %q", got)
	}
	expected := []string{"limit=2&status=failed&status=timeout", "before=b&limit=2&status=failed&status=timeout"}
	if fmt.Sprint(queries) != fmt.Sprint(expected) {
		t.Errorf("requested %v", queries)
	}
}

func TestANumberAsCursorIsSentBackAsItCame(t *testing.T) {
	var after []string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		after = append(after, r.URL.Query().Get("after"))
		if len(after) == 1 {
			answer(w, 200, `{"data": [], "next": 9007199254740993}`)
			return
		}
		answer(w, 200, `{"data": []}`)
	})
	for range client.Jobs.Events(ctx, "j", nil) {
	}
	if fmt.Sprint(after) != "[ 9007199254740993]" {
		t.Errorf("cursors %q", after)
	}
}

func TestParametersBecomeABody(t *testing.T) {
	var path, body, key string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		path, body, key = r.URL.EscapedPath(), string(content), r.Header.Get("Idempotency-Key")
		answer(w, 201, `{"data": {"id": "1", "status": "pending", "result": null}}`)
	})
	job, err := client.Jobs.Submit(ctx, &windlass.JobsSubmitParams{
		Type: "mail.send.v1", Payload: map[string]int{"to": 1}, Delay: 90 * time.Second, IdempotencyKey: "k",
	})
	if err != nil {
		t.Fatal(err)
	}
	if job.ID != "1" || job.Status != windlass.JobStatePending {
		t.Errorf("answer %+v", job)
	}
	if body != `{"delay":90,"payload":{"to":1},"type":"mail.send.v1"}` || key != "k" || path != "/api/v1/jobs" {
		t.Errorf("sent %s with key %s to %s", body, key, path)
	}
	_, _ = client.Plans.Put(ctx, "a/b", &windlass.PlansPutParams{
		Workflows: windlass.Value[int64](3), RunsAtOnce: windlass.Null[int64](),
	})
	if body != `{"runs_at_once":null,"workflows":3}` || path != "/api/v1/plans/a%2Fb" {
		t.Errorf("sent %s to %s", body, path)
	}
	_, _ = client.Jobs.SubmitMany(ctx, &windlass.JobsSubmitManyParams{Jobs: []windlass.JobsSubmitManyJob{
		{Type: "a", Retry: &windlass.JobsSubmitRetry{Kind: "linear"}}, {Type: "b", IdempotencyKey: "x"},
	}})
	if body != `{"jobs":[{"retry":{"kind":"linear"},"type":"a"},{"idempotency_key":"x","type":"b"}]}` {
		t.Errorf("sent %s", body)
	}
}

func TestAProblemDocumentBecomesAnError(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 404, `{"type": "about:blank", "title": "Not Found", "status": 404, "detail": "run x not found",
			"what": "run", "key": "x", "hint": "list them with windlass runs"}`)
	})
	_, err := client.Runs.Get(ctx, "x")
	var failed *windlass.Error
	if !errors.Is(err, windlass.ErrNotFound) || errors.Is(err, windlass.ErrConflict) || !errors.As(err, &failed) {
		t.Fatalf("error %v", err)
	}
	if failed.What != "run" || failed.Key != "x" || failed.Status != 404 || !strings.Contains(err.Error(), "list them") {
		t.Errorf("error %+v", failed)
	}
}

func TestAnAnswerThatIsNotOfWindlassIsExplained(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		_, _ = io.WriteString(w, "<html>oops</html>")
	})
	_, err := client.Runs.Get(ctx, "x")
	if !errors.Is(err, windlass.ErrUnavailable) || !strings.Contains(err.Error(), "<html>oops</html>") {
		t.Errorf("error %v", err)
	}
}

func TestOnlySafeRequestsAreRepeated(t *testing.T) {
	var count atomic.Int32
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if count.Add(1) == 1 {
			w.Header().Set("Retry-After", "0")
			answer(w, 503, `{"detail": "the database is starting", "status": 503, "title": "x"}`)
			return
		}
		answer(w, 200, `{"data": {"id": "1"}}`)
	})
	if _, err := client.Runs.Get(ctx, "x"); err != nil || count.Load() != 2 {
		t.Errorf("%d requests for a GET, error %v", count.Load(), err)
	}
	count.Store(0)
	if _, err := client.Jobs.Submit(ctx, &windlass.JobsSubmitParams{Type: "a"}); !errors.Is(err, windlass.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if count.Load() != 1 {
		t.Errorf("%d requests for a POST", count.Load())
	}
	count.Store(0)
	if _, err := client.Jobs.Submit(ctx, &windlass.JobsSubmitParams{Type: "a", IdempotencyKey: "k"}); err != nil {
		t.Errorf("error %v", err)
	}
	if count.Load() != 2 {
		t.Errorf("%d requests for a POST with a key", count.Load())
	}
}

func TestAServerThatIsNotThereIsUnavailable(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	client, err := windlass.NewClient(server.URL, windlass.WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Stats(ctx); !errors.Is(err, windlass.ErrUnavailable) || !strings.Contains(err.Error(), server.URL) {
		t.Errorf("error %v", err)
	}
}

func TestTheEndOfTheContextEndsARequest(t *testing.T) {
	started := make(chan struct{})
	client := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-started
		cancel()
	}()
	if _, err := client.Stats(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestAStreamResumesAfterTheLastEvent(t *testing.T) {
	var resumed []string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		if len(resumed) == 1 {
			_, _ = io.WriteString(w, "retry: 1\n\nid: 1\nevent: run\ndata: {\"n\": 1}\n\nid: 2\nevent: run\ndata: {\"n\":")
			return // in the middle of an event
		}
		_, _ = io.WriteString(w, ": comment\n\nid: 2\nevent: run\ndata: {\"n\":\ndata: 2}\n\nid: 3\nevent: end\ndata: {}\n\n")
	})
	var events []string
	for event, err := range client.Runs.Stream(ctx, "r", nil) {
		if err != nil {
			t.Fatal(err)
		}
		var data struct{ N int }
		if err := event.Decode(&data); err != nil {
			t.Fatal(err)
		}
		events = append(events, fmt.Sprint(event.ID, event.Event, data.N))
	}
	if fmt.Sprint(events) != "[1run1 2run2 3end0]" || fmt.Sprint(resumed) != "[ 1]" {
		t.Errorf("events %v, resumed after %q", events, resumed)
	}
}

func TestAStreamThatIsRefusedEndsWithTheError(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 401, `{"detail": "send a key", "status": 401, "title": "Unauthorized"}`)
	})
	count := 0
	for _, err := range client.Stream(ctx, nil) {
		count++
		if !errors.Is(err, windlass.ErrUnauthorized) {
			t.Errorf("error %v", err)
		}
	}
	if count != 1 {
		t.Errorf("%d items", count)
	}
}

func TestADownloadIsRead(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("attempt") != "2" {
			answer(w, 404, `{"detail": "no such attempt", "status": 404, "title": "x"}`)
			return
		}
		_, _ = io.WriteString(w, "content")
	})
	file, err := client.Jobs.Download(ctx, "j", "a.txt", &windlass.JobsDownloadParams{Attempt: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if content, err := io.ReadAll(file); err != nil || string(content) != "content" || file.Size != 7 {
		t.Errorf("content %q of %d bytes, error %v", content, file.Size, err)
	}
	if _, err := client.Jobs.Download(ctx, "j", "a.txt", nil); !errors.Is(err, windlass.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

func TestTheEnvironmentNamesTheServer(t *testing.T) {
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		answer(w, 200, `{"data": {}}`)
	}))
	defer server.Close()
	t.Setenv("WINDLASS_URL", server.URL+"/api/v1/")
	t.Setenv("WINDLASS_API_KEY", "first,second")
	t.Setenv("WINDLASS_ORG", "acme")
	client, err := windlass.NewClient("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Stats(ctx); err != nil {
		t.Fatal(err)
	}
	if header.Get("Authorization") != "Bearer first" || header.Get("X-Windlass-Org") != "acme" {
		t.Errorf("headers %v", header)
	}
	for _, url := range []string{"127.0.0.1:80", "ftp://x", "http://", "http://x?y"} {
		if _, err := windlass.NewClient(url); !errors.Is(err, windlass.ErrInvalid) {
			t.Errorf("url %s: %v", url, err)
		}
	}
	if _, err := windlass.NewClient("", windlass.WithKey("a\nb")); !errors.Is(err, windlass.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}

func TestANullValueIsJSON(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, `{"data": {"total": 3}}`) })
	output, err := client.Runs.Output(ctx, "r")
	if err != nil {
		t.Fatal(err)
	}
	var total struct{ Total int }
	if err := json.Unmarshal(output, &total); err != nil || total.Total != 3 {
		t.Errorf("output %s, error %v", output, err)
	}
}
