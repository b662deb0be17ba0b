package loop

import (
	"context"
	"slices"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/failure"
)

// beatAll extends the leases of all held jobs three times per lease, whatever the handlers do. A job whose lease could not
// be extended in time is lost: its handler's context is cancelled before another worker can claim it.
func (l *Loop) beatAll(ctx context.Context) {
	interval := l.Lease / 3
	next := time.Now().Add(interval)
	for {
		wake := next
		if first := l.firstExpiry(); !first.IsZero() && first.Before(wake) {
			wake = first
		}
		if !Sleep(ctx, time.Until(wake)) {
			return
		}
		l.expire()
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(interval)
		if err := l.beat(ctx, interval); err != nil && ctx.Err() == nil {
			l.Logger.Warn("heartbeat failed", "error", err)
			next = time.Now().Add(interval / 4)
		}
	}
}

// firstExpiry returns the time at which the first lease expires, the zero time if there are no leases.
func (l *Loop) firstExpiry() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first time.Time
	for _, one := range l.held {
		if first.IsZero() || one.until.Before(first) {
			first = one.until
		}
	}
	return first
}

// expire cancels the handlers of jobs whose leases have expired.
func (l *Loop) expire() {
	now := time.Now()
	l.mu.Lock()
	var lost []*Execution
	for _, one := range l.held {
		if !now.Before(one.until) {
			lost = append(lost, one)
		}
	}
	l.mu.Unlock()
	for _, one := range lost {
		one.Lose()
	}
}

// Lose cancels the handler of a job that this worker no longer holds. The outcome of the job is not reported.
func (e *Execution) Lose() {
	l := e.loop
	l.mu.Lock()
	isHeld := l.held[e.Job.ID] == e
	if isHeld {
		delete(l.held, e.Job.ID)
	}
	wasRunning := !e.isDone
	e.isDone = true
	l.mu.Unlock()
	if isHeld && wasRunning {
		l.Logger.Warn("the lease was lost", "job", e.Job.ID, "type", e.Job.Type)
	}
	e.cancel(failure.ErrLost)
	l.wake()
}

// beat sends one heartbeat. It times out after the limit, or earlier when the first lease expires.
func (l *Loop) beat(ctx context.Context, limit time.Duration) error {
	began := time.Now()
	l.mu.Lock()
	executions := make([]*Execution, 0, len(l.held))
	for _, one := range l.held {
		executions = append(executions, one)
		limit = min(limit, one.until.Sub(began))
	}
	l.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, max(limit, time.Millisecond))
	defer cancel()
	answer, err := l.Backend.Beat(limited, executions)
	if err != nil {
		return err
	}
	l.direct(answer.Directive)
	extended := make(map[string]bool, len(answer.Extended))
	for _, id := range answer.Extended {
		extended[id] = true
	}
	var lost, cancelled []*Execution
	l.mu.Lock()
	for _, one := range executions {
		id := one.Job.ID
		if extended[id] {
			one.until = began.Add(l.Lease)
		}
		if slices.Contains(answer.Cancelled, id) {
			cancelled = append(cancelled, one)
		} else if !extended[id] && !one.isDone && l.held[id] == one { // finished jobs are settled by their report
			lost = append(lost, one)
		}
	}
	l.mu.Unlock()
	for _, one := range cancelled {
		one.cancel(failure.ErrCancelled)
	}
	for _, one := range lost {
		one.Lose()
	}
	return nil
}

// direct applies the operator's directive.
func (l *Loop) direct(directive string) {
	l.mu.Lock()
	hasChanged := l.quiet != (directive == "quiet")
	l.quiet = directive == "quiet"
	l.mu.Unlock()
	if directive == "terminate" {
		l.Logger.Info("the operator stops this worker")
		l.stop()
	}
	if hasChanged {
		l.Logger.Info("directive of the operator", "quiet", directive == "quiet")
		l.wake()
	}
}
