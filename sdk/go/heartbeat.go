package windlass

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"
)

type heartbeatRequest struct {
	WorkerID string   `json:"worker_id"`
	Active   []string `json:"active_jobs"`
	Lease    int64    `json:"visibility_timeout_ms"`
	State    string   `json:"state,omitempty"`
}

type heartbeatAnswer struct {
	Directive string   `json:"directive"`
	Extended  []string `json:"jobs_extended"`
	Cancelled []string `json:"jobs_cancelled"`
}

// beat extends the leases of all held jobs three times per lease, whatever the handlers do. A job whose lease could not be
// extended in time is lost: its handler's context ends before another worker can begin.
func (w *Worker) beat(ctx context.Context) {
	interval := w.lease / 3
	next := time.Now().Add(interval)
	for {
		wake := next
		if first := w.firstExpiry(); !first.IsZero() && first.Before(wake) {
			wake = first
		}
		if !sleep(ctx, time.Until(wake)) {
			return
		}
		w.expire()
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(interval)
		if err := w.sendBeat(ctx, interval); err != nil && ctx.Err() == nil {
			w.logger.Warn("heartbeat failed", "error", err)
			next = time.Now().Add(interval / 4)
		}
	}
}

// firstExpiry returns when the first lease of a handler that still runs ends.
func (w *Worker) firstExpiry() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first time.Time
	for _, one := range w.held {
		if first.IsZero() || one.until.Before(first) {
			first = one.until
		}
	}
	return first
}

// expire ends the handlers of jobs whose leases are over.
func (w *Worker) expire() {
	now := time.Now()
	w.mu.Lock()
	var lost []*execution
	for _, one := range w.held {
		if !now.Before(one.until) {
			lost = append(lost, one)
		}
	}
	w.mu.Unlock()
	for _, one := range lost {
		w.lose(one)
	}
}

// lose ends the handler of a job that this worker no longer holds. Nothing more is reported for it.
func (w *Worker) lose(one *execution) {
	w.mu.Lock()
	isHeld := w.held[one.job.ID] == one
	if isHeld {
		delete(w.held, one.job.ID)
	}
	wasRunning := !one.isDone
	one.isDone = true
	w.mu.Unlock()
	if isHeld && wasRunning {
		w.logger.Warn("the lease was lost", "job", one.job.ID, "type", one.job.Type)
	}
	one.cancel(ErrLost)
	w.wake()
}

func (w *Worker) sendBeat(ctx context.Context, interval time.Duration) error {
	began := time.Now()
	w.mu.Lock()
	executions := make(map[string]*execution, len(w.held))
	active := make([]string, 0, len(w.held))
	limit := interval
	for id, one := range w.held {
		executions[id] = one
		active = append(active, id)
		limit = min(limit, one.until.Sub(began))
	}
	w.mu.Unlock()
	var answer heartbeatAnswer
	c := &call{
		method: http.MethodPost, path: "/ojs/v1/workers/heartbeat", timeout: max(limit, time.Millisecond),
		body: heartbeatRequest{WorkerID: w.id, Active: active, Lease: w.lease.Milliseconds()},
	}
	if err := w.transport.once(ctx, c, &answer); err != nil {
		return err
	}
	w.direct(answer.Directive)
	w.mu.Lock()
	for _, id := range answer.Extended {
		if one := executions[id]; one != nil {
			one.until = began.Add(w.lease)
		}
	}
	var lost, cancelled []*execution
	for id, one := range executions {
		switch {
		case slices.Contains(answer.Cancelled, id):
			cancelled = append(cancelled, one)
		case one.until.Equal(began.Add(w.lease)) || one.isDone || w.held[id] != one:
			// Extended; or its report has the answer.
		default:
			lost = append(lost, one)
		}
	}
	w.mu.Unlock()
	for _, one := range cancelled {
		one.cancel(ErrCancelled)
	}
	for _, one := range lost {
		w.lose(one)
	}
	return nil
}

// direct follows the operator's directive.
func (w *Worker) direct(directive string) {
	w.mu.Lock()
	changed := w.quiet != (directive == "quiet")
	w.quiet = directive == "quiet"
	w.mu.Unlock()
	if directive == "terminate" {
		w.logger.Info("the operator stops this worker")
		w.stop()
	}
	if changed {
		w.logger.Info("directive of the operator", "quiet", directive == "quiet")
		w.wake()
	}
}

// goodbye tells the server that the worker has stopped.
func (w *Worker) goodbye(ctx context.Context) {
	c := &call{
		method: http.MethodPost, path: "/ojs/v1/workers/heartbeat", timeout: 2 * time.Second,
		body: heartbeatRequest{WorkerID: w.id, Active: []string{}, Lease: w.lease.Milliseconds(), State: "stopped"},
	}
	if err := w.transport.once(ctx, c, nil); err != nil {
		w.logger.Debug("the server does not know that this worker has stopped", "error", err)
	}
}

func isConflict(err error) bool { return errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) }
