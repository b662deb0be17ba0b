package windlass

import (
	"time"

	"github.com/windlass/windlass/sdk/go/internal/failure"
)

// Causes for which the context of a handler ends: context.Cause(ctx) returns one of them.
var (
	// ErrCancelled: the job was cancelled.
	ErrCancelled = failure.ErrCancelled
	// ErrLost: the lease was lost, and another worker may have the job. What this handler returns is not reported.
	ErrLost = failure.ErrLost
	// ErrTimeout: the attempt took longer than the timeout of the job.
	ErrTimeout = failure.ErrTimeout
	// ErrDraining: the worker stops, and its grace period is over. The job goes back to the queue; no attempt is used up.
	ErrDraining = failure.ErrDraining
)

// InvalidInput is the failure of a job whose input does not fit the type that its handler takes. It is not retried.
type InvalidInput = failure.InvalidInput

// NonRetryable returns an error that fails the job at once, without further attempts.
func NonRetryable(err error) error { return failure.NonRetryable(err) }

// RetryAfter returns an error after which the next attempt begins after this delay instead of the job's backoff.
func RetryAfter(err error, delay time.Duration) error { return failure.RetryAfter(err, delay) }
