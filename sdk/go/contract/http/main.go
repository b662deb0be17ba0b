// Command http is the driver of the contract suite for the worker over HTTP: see sdk/contract/README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	windlass "github.com/windlass/windlass/sdk/go"
	"github.com/windlass/windlass/sdk/go/contract/driver"
)

var reasons = map[error]string{
	windlass.ErrCancelled: "cancelled", windlass.ErrLost: "lost", windlass.ErrTimeout: "timeout", windlass.ErrDraining: "drain",
}

func main() {
	environment := driver.FromEnvironment()
	worker, err := windlass.NewWorker(windlass.WorkerOptions{
		Key: os.Getenv("WINDLASS_KEY"), ID: environment.Worker, Queues: []string{environment.Queue},
		Concurrency: environment.Concurrency, Lease: environment.Lease, Grace: environment.Grace,
	})
	if err != nil {
		panic(err)
	}
	register(worker)
	driver.UntilTerminated(worker.Run)
}

// handle registers a handler that writes its start to the trace.
func handle[In, Out any](worker *windlass.Worker, name string, run func(context.Context, *windlass.ClaimedJob, In) (Out, error)) {
	windlass.Handle(worker, name, func(ctx context.Context, input In) (Out, error) {
		job := windlass.JobFrom(ctx)
		driver.Trace("start %s %s %d", job.Type, job.ID, job.Attempt)
		return run(ctx, job, input)
	})
}

func register(worker *windlass.Worker) {
	type job = *windlass.ClaimedJob
	windlass.Handle(worker, "contract.noop.v1", func(context.Context, any) (any, error) { return nil, nil })
	handle(worker, "contract.echo.v1", func(_ context.Context, _ job, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	handle(worker, "contract.context.v1", func(_ context.Context, job job, _ any) (map[string]any, error) {
		return map[string]any{"type": job.Type, "attempt": job.Attempt, "queue": job.Queue, "id": job.ID}, nil
	})
	handle(worker, "contract.large.v1", func(_ context.Context, _ job, in driver.Sized) (map[string]string, error) {
		return driver.Large(in.Size), nil
	})
	handle(worker, "contract.fail.v1", func(_ context.Context, job job, in driver.Failing) (driver.Attempted, error) {
		if job.Attempt <= in.Times {
			return driver.Attempted{}, driver.ErrPlanned
		}
		return driver.Attempted{Attempt: job.Attempt}, nil
	})
	handle(worker, "contract.fatal.v1", func(context.Context, job, any) (any, error) {
		return nil, windlass.NonRetryable(driver.BadInput{})
	})
	handle(worker, "contract.retry_after.v1", func(_ context.Context, job job, in driver.Later) (driver.Attempted, error) {
		if job.Attempt == 1 {
			return driver.Attempted{}, windlass.RetryAfter(errors.New("not yet"), time.Duration(in.MS)*time.Millisecond)
		}
		return driver.Attempted{Attempt: job.Attempt}, nil
	})
	handle(worker, "contract.hang.v1", func(ctx context.Context, job job, _ any) (any, error) {
		return nil, driver.Hang(ctx, job.ID, reasons)
	})
	for _, name := range []string{"contract.stubborn.v1", "contract.wait.v1"} {
		handle(worker, name, func(_ context.Context, job job, in driver.File) (map[string]bool, error) {
			return driver.Until(job.ID, in.Until), nil
		})
	}
	handle(worker, "contract.steps.v1", steps)
	handle(worker, "contract.talk.v1", func(ctx context.Context, _ job, in driver.Talk) (any, error) {
		for n := range in.Lines {
			windlass.Logger(ctx).Info(fmt.Sprint(in.Message, " ", n+1))
		}
		return nil, windlass.Progress(ctx, 0.5, "half")
	})
}

func steps(ctx context.Context, job *windlass.ClaimedJob, in driver.Dying) (map[string]int, error) {
	sum := 0
	for n, name := range []string{"a", "b", "c"} {
		if name == "c" && in.Die && job.Attempt == 1 && job.Fence == 1 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		value, err := windlass.Step(ctx, name, func() (int, error) {
			driver.Trace("step %s", name)
			return n + 1, nil
		})
		if err != nil {
			return nil, err
		}
		sum += value
	}
	return map[string]int{"sum": sum}, nil
}
