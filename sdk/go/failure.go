package windlass

import (
	"time"

	"github.com/windlass/windlass/sdk/go/internal/failure"
)

// Causes with which the context of a handler is cancelled: context.Cause(ctx) returns one of them.
var (
	// ErrCancelled means that the job was cancelled.
	ErrCancelled = failure.ErrCancelled
	// ErrLost means that the lease was lost and another worker may have the job. The handler's result is not reported.
	ErrLost = failure.ErrLost
	// ErrTimeout means that the attempt took longer than the timeout of the job.
	ErrTimeout = failure.ErrTimeout
	// ErrDraining means that the worker is stopping and its grace period has expired. The job is returned to its queue
	// without charging an attempt.
	ErrDraining = failure.ErrDraining
)

// InvalidInput is the error of a job whose input cannot be decoded into the input type of its handler. The job is not
// retried.
type InvalidInput = failure.InvalidInput

// NonRetryable wraps an error so that the job fails without further attempts.
func NonRetryable(err error) error { return failure.NonRetryable(err) }

// RetryAfter wraps an error so that the next attempt is due after this delay instead of the job's backoff.
func RetryAfter(err error, delay time.Duration) error { return failure.RetryAfter(err, delay) }
