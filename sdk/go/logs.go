package windlass

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/loop"
)

const (
	lineDelay = 250 * time.Millisecond // lines are collected for this long before a request
	mostLines = 500                    // lines in one request
	mostBytes = 4 << 20                // of lines in one request; the server accepts twice as much
	maxLines  = 20_000                 // queued lines; further lines are dropped
	maxLine   = 8000                   // bytes of a message
)

// LogHandler is a [slog.Handler] that sends the records of a handler as log lines of its job. It finds the job in the
// context of the record, so slog.InfoContext(ctx, ...) works once the LogHandler is the default:
//
//	slog.SetDefault(slog.New(windlass.NewLogHandler(slog.Default().Handler())))
type LogHandler struct {
	next    slog.Handler    // also receives all records
	ctx     context.Context // used instead of the record's context
	changes []func(slog.Handler) slog.Handler
}

// NewLogHandler returns a handler that passes all records on to the next one, and sends those of jobs to the server.
func NewLogHandler(next slog.Handler) *LogHandler { return &LogHandler{next: next} }

// Enabled reports true for all records of jobs, because the server stores every level.
func (h *LogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.attempt(ctx) != nil || (h.next != nil && h.next.Enabled(ctx, level))
}

// Handle queues the record of a job as a log line, and passes records on to the next handler.
func (h *LogHandler) Handle(ctx context.Context, record slog.Record) error {
	if one := h.attempt(ctx); one != nil {
		one.hasLines.Store(true)
		one.remote.lines.add(logLine{
			JobID: one.job.ID, Fence: one.job.Fence, At: record.Time, Level: levelName(record.Level), Message: h.text(ctx, record),
		})
	}
	if h.next != nil && h.next.Enabled(ctx, record.Level) {
		return h.next.Handle(ctx, record)
	}
	return nil
}

// WithAttrs returns a handler whose lines have these attributes.
func (h *LogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(inner slog.Handler) slog.Handler { return inner.WithAttrs(attrs) })
}

// WithGroup returns a handler whose attributes are in a group.
func (h *LogHandler) WithGroup(name string) slog.Handler {
	return h.with(func(inner slog.Handler) slog.Handler { return inner.WithGroup(name) })
}

func (h *LogHandler) with(change func(slog.Handler) slog.Handler) *LogHandler {
	copied := &LogHandler{next: h.next, ctx: h.ctx, changes: append(h.changes[:len(h.changes):len(h.changes)], change)}
	if h.next != nil {
		copied.next = change(h.next)
	}
	return copied
}

func (h *LogHandler) attempt(ctx context.Context) *attempt {
	if h.ctx != nil {
		ctx = h.ctx
	}
	if ctx == nil {
		return nil
	}
	return attemptOf(loop.ExecutionOf(ctx))
}

// text returns the message with its attributes as the text handler of the standard library writes them.
func (h *LogHandler) text(ctx context.Context, record slog.Record) string {
	var attributes strings.Builder
	var inner slog.Handler = slog.NewTextHandler(&attributes, &slog.HandlerOptions{
		Level: record.Level,
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && (attr.Key == slog.TimeKey || attr.Key == slog.LevelKey || attr.Key == slog.MessageKey) {
				return slog.Attr{}
			}
			return attr
		},
	})
	for _, change := range h.changes {
		inner = change(inner)
	}
	_ = inner.Handle(ctx, record) // writing to memory cannot fail
	return strings.TrimSpace(record.Message + " " + strings.TrimSpace(attributes.String()))
}

func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warning"
	}
	return "error"
}

type logLine struct {
	JobID   string    `json:"job_id"`
	Fence   int64     `json:"fence"`
	At      time.Time `json:"at"`
	Level   string    `json:"level"`
	Message string    `json:"message"`
}

// lineSender sends log lines in batches.
type lineSender struct {
	remote  *remote
	logger  *slog.Logger
	mu      sync.Mutex
	lines   []json.RawMessage
	added   uint64        // lines added so far
	sent    uint64        // lines that were sent, or dropped because sending failed
	dropped int           // lines dropped because the queue was full
	done    chan struct{} // closed when `sent` has changed, then replaced
	signal  chan struct{} // there are queued lines
	hurry   chan struct{} // send now: a batch is full, or an execution waits for its lines
}

func newLineSender(remote *remote, logger *slog.Logger) *lineSender {
	return &lineSender{
		remote: remote, logger: logger, done: make(chan struct{}), signal: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
	}
}

func (s *lineSender) add(line logLine) {
	if len(line.Message) > maxLine {
		line.Message = strings.ToValidUTF8(line.Message[:maxLine], "")
	}
	encoded, err := json.Marshal(line)
	if err != nil { // a time beyond the year 9999
		line.At = time.Now()
		encoded, _ = json.Marshal(line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) >= maxLines {
		s.dropped++
		return
	}
	s.lines = append(s.lines, encoded)
	s.added++
	notify(s.signal)
	if len(s.lines) >= mostLines {
		notify(s.hurry)
	}
}

func notify(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// flush waits until all lines added so far were sent, for at most 5 seconds.
func (s *lineSender) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s.mu.Lock()
	target := s.added
	for s.sent < target {
		done := s.done
		s.mu.Unlock()
		notify(s.signal)
		notify(s.hurry)
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
}

func (s *lineSender) run(ctx context.Context) {
	for {
		select {
		case <-s.signal:
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(lineDelay)
		select {
		case <-timer.C:
		case <-s.hurry:
		case <-ctx.Done():
		}
		timer.Stop()
		for s.send(ctx) {
		}
	}
}

// batch returns the lines of the next request.
func (s *lineSender) batch() []json.RawMessage {
	bytes := 0
	for n, line := range s.lines {
		if bytes += len(line); n == mostLines || (n > 0 && bytes > mostBytes) {
			return s.lines[:n]
		}
	}
	return s.lines
}

// send sends one batch, and reports whether there are more lines. Lines that cannot be sent are dropped: a handler must not
// fail because of its log.
func (s *lineSender) send(ctx context.Context) bool {
	s.mu.Lock()
	batch := s.batch()
	s.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	c := &call{
		method: http.MethodPost, path: "/ojs/v1/workers/logs", isSafe: true, timeout: 5 * time.Second,
		body: map[string]any{"worker_id": s.remote.worker, "lines": batch},
	}
	var answer struct {
		Refused []struct {
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		} `json:"refused"`
	}
	if err := s.remote.transport.perform(ctx, c, &answer); err != nil && ctx.Err() == nil {
		s.logger.Warn("log lines were dropped", "lines", len(batch), "error", err)
	}
	if len(answer.Refused) > 0 {
		s.logger.Warn("log lines were refused", "lines", len(answer.Refused), "error", answer.Refused[0].Error.Message)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = s.lines[len(batch):]
	if len(s.lines) == 0 {
		s.lines = nil
	}
	if s.dropped > 0 {
		s.logger.Warn("log lines were dropped: the handlers log faster than the server accepts them", "lines", s.dropped)
		s.dropped = 0
	}
	s.sent += uint64(len(batch))
	close(s.done)
	s.done = make(chan struct{})
	return len(s.lines) > 0
}
