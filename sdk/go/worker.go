package windlass

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	defaultConcurrency = 10
	defaultLease       = 30 * time.Second
	defaultGrace       = 30 * time.Second
	leastLease         = 100 * time.Millisecond
	mostFetched        = 1000
	mostReported       = 1000
)

// WorkerOptions are the options of a worker. Zero values are replaced by the defaults.
type WorkerOptions struct {
	// URL, Key and Org are those of [NewClient]: from the environment if they are empty. The key needs the scope work.
	URL, Key, Org string
	// ID is the name of the worker; no two workers may share one. By default: host, process id and a random part.
	ID string
	// Queues are the queues that the worker serves: default.
	Queues []string
	// Concurrency is the number of handlers that run at the same time: 10.
	Concurrency int
	// Lease is how long a job stays with this worker without a heartbeat: 30 seconds. Heartbeats are three times as frequent.
	Lease time.Duration
	// Grace is how long handlers may go on when the worker stops, before their contexts end: 30 seconds.
	Grace time.Duration
	// Logger receives what the worker logs about itself: slog.Default().
	Logger *slog.Logger
	// HTTPClient sends the requests.
	HTTPClient *http.Client
}

// Worker executes jobs of some types from some queues over HTTP. Register handlers with [Handle], then call Run.
type Worker struct {
	id          string
	queues      []string
	concurrency int
	lease       time.Duration
	grace       time.Duration
	logger      *slog.Logger
	transport   *transport
	handlers    map[string]handler

	reports *reporter
	lines   *lineSender

	mu      sync.Mutex
	held    map[string]*execution // by job id: running, or not reported yet
	running int                   // handlers
	quiet   bool                  // the operator's directive: fetch no more
	changed chan struct{}         // a slot is free, or the directive has changed
	stop    context.CancelFunc    // begin to drain
	isUsed  bool
}

type handler func(ctx context.Context, input json.RawMessage) (json.RawMessage, error)

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
	w := &Worker{
		id: options.ID, queues: slices.Clone(options.Queues), concurrency: options.Concurrency,
		lease: options.Lease, grace: options.Grace, logger: options.Logger, transport: t,
		handlers: map[string]handler{}, held: map[string]*execution{}, changed: make(chan struct{}, 1),
	}
	if err := w.setDefaults(); err != nil {
		return nil, err
	}
	w.reports = newReporter(w)
	w.lines = newLineSender(w)
	return w, nil
}

func (w *Worker) setDefaults() error {
	if w.concurrency < 0 || w.lease < 0 || w.grace < 0 || (w.lease > 0 && w.lease < leastLease) {
		return fmt.Errorf("windlass: Concurrency, Lease and Grace must not be negative, and Lease must be at least %s", leastLease)
	}
	if w.id == "" {
		host, _ := os.Hostname()
		w.id = fmt.Sprintf("%s-%d-%06x", host, os.Getpid(), rand.N(1<<24))
	}
	if len(w.queues) == 0 {
		w.queues = []string{"default"}
	}
	if w.concurrency == 0 {
		w.concurrency = defaultConcurrency
	}
	if w.lease == 0 {
		w.lease = defaultLease
	}
	if w.grace == 0 {
		w.grace = defaultGrace
	}
	if w.logger == nil {
		w.logger = slog.Default()
	}
	w.logger = w.logger.With("worker", w.id)
	return nil
}

// ID returns the name of the worker.
func (w *Worker) ID() string { return w.id }

// Handle registers the handler of a type of jobs. The input of the job is decoded into In, and what the handler returns
// becomes the result of the job. Use [json.RawMessage] to take the input or to give the result as JSON.
//
// The context ends when the job was cancelled, its lease was lost, it timed out, or the worker stops; [context.Cause]
// returns which. An error fails the attempt; see [NonRetryable] and [RetryAfter]. Handle panics if the type has a handler
// already or if the worker runs.
func Handle[In, Out any](w *Worker, jobType string, handle func(ctx context.Context, input In) (Out, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isUsed {
		panic("windlass: the worker is running: register handlers before Run")
	}
	if _, ok := w.handlers[jobType]; ok {
		panic(fmt.Sprintf("windlass: %s has a handler already", jobType))
	}
	w.handlers[jobType] = func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, NonRetryable(&InvalidInput{Type: jobType, Cause: err})
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, err
		}
		return encodeResult(out)
	}
}

// InvalidInput is the failure of a job whose input does not fit the type that its handler takes. It is not retried.
type InvalidInput struct {
	Type  string
	Cause error
}

// Error returns what does not fit.
func (e *InvalidInput) Error() string {
	return fmt.Sprintf("the input does not fit %s: %v", e.Type, e.Cause)
}

// Unwrap returns the error of the decoder.
func (e *InvalidInput) Unwrap() error { return e.Cause }

func encodeResult(value any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, NonRetryable(fmt.Errorf("the result cannot be encoded: %w", err))
	}
	return bytes.TrimSpace(buffer.Bytes()), nil
}

// Run executes jobs until the context ends, then drains: it fetches no more, lets the handlers finish within the grace
// period, ends the contexts of the others and gives their jobs back. It returns nil after that, or the error with which
// the server refused the first fetch. A worker runs once.
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	err := worker.Run(ctx)
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	if w.isUsed || len(w.handlers) == 0 {
		w.mu.Unlock()
		return errors.New("windlass: a worker needs a handler, and runs once")
	}
	w.isUsed = true
	ctx, w.stop = context.WithCancel(ctx)
	w.mu.Unlock()
	defer w.stop()

	background := context.WithoutCancel(ctx)
	services, end := context.WithCancel(background)
	defer end()
	var group sync.WaitGroup
	for _, service := range []func(context.Context){w.beat, w.reports.run, w.lines.run} {
		group.Add(1)
		go func() {
			defer group.Done()
			service(services)
		}()
	}
	err := w.fetchAll(ctx, background)
	w.drain(background)
	end()
	group.Wait()
	w.goodbye(background)
	return err
}

// drain waits for the handlers, then for their reports.
func (w *Worker) drain(ctx context.Context) {
	w.logger.Info("draining", "running", w.count())
	if !w.waitFor(w.grace, func() bool { return w.running == 0 }) {
		w.mu.Lock()
		for _, one := range w.held {
			one.cancel(ErrDraining)
		}
		w.mu.Unlock()
		// A handler that ignores its context is left behind: its job goes back to the queue, and the fence keeps its
		// result out.
		if !w.waitFor(min(w.grace, time.Second), func() bool { return w.running == 0 }) {
			w.release()
		}
	}
	if !w.waitFor(w.lease, func() bool { return len(w.held) == 0 }) {
		w.logger.Warn("some outcomes could not be reported; their jobs run again when the leases expire", "jobs", w.count())
	}
	w.lines.flush(ctx)
}

func (w *Worker) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

// release gives back the jobs whose handlers are still running.
func (w *Worker) release() {
	w.mu.Lock()
	var left []*execution
	for _, one := range w.held {
		if !one.isDone {
			one.isDone = true
			left = append(left, one)
		}
	}
	w.mu.Unlock()
	for _, one := range left {
		w.logger.Warn("the handler ignored the end of its context; the job goes back to the queue", "job", one.job.ID)
		w.reports.add(outcome{execution: one, requeue: true})
	}
}

// waitFor waits until a condition on the worker's state holds, and reports false if that took too long.
func (w *Worker) waitFor(limit time.Duration, condition func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		w.mu.Lock()
		holds := condition()
		w.mu.Unlock()
		if holds {
			return true
		}
		select {
		case <-w.changed:
		case <-timer.C:
			return false
		}
	}
}

// wake lets the fetch loop, or the drain, look at the state again.
func (w *Worker) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}
