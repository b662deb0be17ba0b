// Command sql is the driver of the contract suite for the worker over SQL: see sdk/contract/README.md.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib"

	windlass "github.com/windlass/windlass/sdk/go"
	"github.com/windlass/windlass/sdk/go/contract/driver"
	"github.com/windlass/windlass/sdk/go/inbox"
)

var reasons = map[error]string{
	windlass.ErrCancelled: "cancelled", windlass.ErrLost: "lost", windlass.ErrDraining: "drain",
}

func main() {
	environment := driver.FromEnvironment()
	db, err := sql.Open("pgx", os.Getenv("WINDLASS_DSN"))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	runtime := inbox.NewRuntime(db, inbox.RuntimeOptions{
		Worker: environment.Worker, Concurrency: environment.Concurrency, Lease: environment.Lease, Grace: environment.Grace,
	})
	register(runtime, environment.Queue)
	driver.UntilTerminated(runtime.Run)
}

// handle registers a handler that writes its start to the trace.
func handle[In, Out any](runtime *inbox.Runtime, name string, run func(context.Context, *inbox.Claim, In) (Out, error)) {
	inbox.Handle(runtime, name, func(ctx context.Context, input In) (Out, error) {
		claim := inbox.ClaimFrom(ctx)
		driver.Trace("start %s %s %d", claim.Type, claim.ID, claim.Attempt+1)
		return run(ctx, claim, input)
	})
}

func register(runtime *inbox.Runtime, queue string) {
	type claim = *inbox.Claim
	inbox.Handle(runtime, "contract.noop.v1", func(context.Context, any) (any, error) { return nil, nil })
	handle(runtime, "contract.echo.v1", func(_ context.Context, _ claim, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	handle(runtime, "contract.context.v1", func(_ context.Context, claim claim, _ any) (map[string]any, error) {
		return map[string]any{"type": claim.Type, "attempt": claim.Attempt + 1, "queue": queue, "id": claim.ID}, nil
	})
	handle(runtime, "contract.large.v1", func(_ context.Context, _ claim, in driver.Sized) (map[string]string, error) {
		return driver.Large(in.Size), nil
	})
	handle(runtime, "contract.fail.v1", func(_ context.Context, claim claim, in driver.Failing) (driver.Attempted, error) {
		if claim.Attempt < in.Times {
			return driver.Attempted{}, driver.ErrPlanned
		}
		return driver.Attempted{Attempt: claim.Attempt + 1}, nil
	})
	handle(runtime, "contract.fatal.v1", func(context.Context, claim, any) (any, error) {
		return nil, windlass.NonRetryable(driver.BadInput{})
	})
	handle(runtime, "contract.hang.v1", func(ctx context.Context, claim claim, _ any) (any, error) {
		return nil, driver.Hang(ctx, claim.ID, reasons)
	})
	for _, name := range []string{"contract.stubborn.v1", "contract.wait.v1"} {
		handle(runtime, name, func(_ context.Context, claim claim, in driver.File) (map[string]bool, error) {
			return driver.Until(claim.ID, in.Until), nil
		})
	}
}
