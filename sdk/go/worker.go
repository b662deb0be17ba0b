package windlass

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/loop"
)

// WorkerOptions are the options of a worker. Zero values are replaced by the defaults.
type WorkerOptions struct {
	// URL, Key and Org are as for [NewClient], and read from the environment if they are empty. The key needs the scope
	// work.
	URL, Key, Org string
	// ID is the name of the worker, which must be unique. By default it is made of host, process id and a random part.
	ID string
	// Queues are the queues that the worker serves, by default only the queue default.
	Queues []string
	// Concurrency is the maximum number of handlers that run concurrently, 10 by default.
	Concurrency int
	// Lease is how long a job stays leased to this worker without a heartbeat, 30 seconds by default. There are three
	// heartbeats per lease.
	Lease time.Duration
	// Grace is how long handlers may continue when the worker stops, before their contexts are cancelled, 30 seconds by
	// default.
	Grace time.Duration
	// Logger receives the log of the worker itself, slog.Default() by default.
	Logger *slog.Logger
	// HTTPClient sends the requests.
	HTTPClient *http.Client
}

// Worker executes jobs of some types from some queues over HTTP. Register handlers with [Handle], then call Run.
type Worker struct {
	loop   loop.Loop
	remote remote
}

// NewWorker returns a worker.
func NewWorker(options WorkerOptions) (*Worker, error) {
	clientOptions := []Option{}
	if options.Key != "" {
		clientOptions = append(clientOptions, WithKey(options.Key))
	}
	if options.Org != "" {
		clientOptions = append(clientOptions, WithOrg(options.Org))
	}
	if options.HTTPClient != nil {
		clientOptions = append(clientOptions, WithHTTPClient(options.HTTPClient))
	}
	t, err := newTransport(options.URL, clientOptions...)
	if err != nil {
		return nil, err
	}
	shared, err := loop.Options{
		ID: options.ID, Concurrency: options.Concurrency, Lease: options.Lease, Grace: options.Grace, Logger: options.Logger,
	}.Complete()
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, Field: "options", Detail: err.Error()}
	}
	queues := slices.Clone(options.Queues)
	if len(queues) == 0 {
		queues = []string{"default"}
	}
	w := &Worker{remote: remote{transport: t, worker: shared.ID, queues: queues, lease: shared.Lease}}
	w.loop = loop.Loop{Backend: &w.remote, Options: shared}
	w.remote.lines = newLineSender(&w.remote, shared.Logger)
	return w, nil
}

// ID returns the name of the worker.
func (w *Worker) ID() string { return w.remote.worker }

// Handle registers the handler of a job type, or of all types with a common prefix: billing.%. The input of the job is
// decoded into In, and the value that the handler returns becomes the result of the job. Use [json.RawMessage] to
// receive the input, or to return the result, as JSON.
//
// The context is cancelled when the job was cancelled, its lease was lost, it timed out, or the worker stops;
// [context.Cause] returns the reason. An error fails the attempt; see [NonRetryable] and [RetryAfter]. Handle panics if
// the type already has a handler or if the worker has started.
func Handle[In, Out any](w *Worker, jobType string, handle func(ctx context.Context, input In) (Out, error)) {
	w.loop.Handlers.Add(jobType, loop.Typed(handle))
}

// Run executes jobs until the context ends, then drains: it stops fetching, lets handlers finish within the grace
// period, cancels the contexts of the remaining handlers and returns their jobs to the queue. It returns nil after a
// drain, or the error with which the server refused the first fetch. A worker can run only once.
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	err := worker.Run(ctx)
func (w *Worker) Run(ctx context.Context) error {
	types, err := w.loop.Handlers.Start()
	if err != nil {
		return err
	}
	w.remote.types = types
	background := context.WithoutCancel(ctx)
	services, end := context.WithCancel(background)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w.remote.lines.run(services)
	}()
	err = w.loop.Run(ctx)
	w.remote.lines.flush(background)
	end()
	<-sent
	w.goodbye(background)
	return err
}

// goodbye reports to the server that the worker has stopped.
func (w *Worker) goodbye(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	body := heartbeat{WorkerID: w.remote.worker, Active: []string{}, Lease: w.remote.lease.Milliseconds(), State: "stopped"}
	if err := w.remote.beat(limited, body, nil); err != nil {
		w.loop.Logger.Debug("cannot report that this worker has stopped", "error", err)
	}
}
