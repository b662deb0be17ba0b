// Package driver contains the code that the drivers of the contract suite share: see sdk/contract/README.md.
package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Environment is the configuration that the suite passes to a driver.
type Environment struct {
	Queue, Worker string
	Concurrency   int
	Lease, Grace  time.Duration
}

// FromEnvironment reads the variables of the suite.
func FromEnvironment() Environment {
	return Environment{
		Queue: os.Getenv("CONTRACT_QUEUE"), Worker: os.Getenv("CONTRACT_WORKER"),
		Concurrency: number("CONTRACT_CONCURRENCY", 8),
		Lease:       time.Duration(number("CONTRACT_LEASE_MS", 2000)) * time.Millisecond,
		Grace:       time.Duration(number("CONTRACT_GRACE_MS", 10000)) * time.Millisecond,
	}
}

func number(name string, otherwise int) int {
	if value, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return value
	}
	return otherwise
}

// Trace appends a line to the trace, with one write.
func Trace(format string, values ...any) {
	file, err := os.OpenFile(os.Getenv("CONTRACT_TRACE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(file, format+"\n", values...)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		panic(err)
	}
}

// UntilTerminated runs a worker until SIGTERM. It exits with status 1 if the worker fails.
func UntilTerminated(run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { fmt.Println("draining") })
	fmt.Println("ready")
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// BadInput is an error that is not retried.
type BadInput struct{}

func (BadInput) Error() string { return "bad input" }

// ErrPlanned is the failure of contract.fail.v1.
var ErrPlanned = errors.New("planned failure")

// Hang waits for the end of the context, and returns its cause.
func Hang(ctx context.Context, id string, reasons map[error]string) error {
	Trace("hanging %s", id)
	<-ctx.Done()
	cause := context.Cause(ctx)
	Trace("stopped %s %s", id, reasons[cause])
	return cause
}

// Until waits until a file exists, and ignores the context of the handler.
func Until(id, file string) map[string]bool {
	Trace("hanging %s", id)
	for {
		if _, err := os.Stat(file); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	Trace("done %s", id)
	return map[string]bool{"done": true}
}

// Large returns the result of contract.large.v1.
func Large(size int) map[string]string { return map[string]string{"text": strings.Repeat("x", size)} }

// Inputs of the handlers.
type (
	// Failing is the input of contract.fail.v1.
	Failing struct{ Times int }
	// Later is the input of contract.retry_after.v1.
	Later struct{ MS int }
	// File is the input of contract.wait.v1 and contract.stubborn.v1.
	File struct{ Until string }
	// Dying is the input of contract.steps.v1.
	Dying struct{ Die bool }
	// Talk is the input of contract.talk.v1.
	Talk struct {
		Lines   int
		Message string
	}
	// Sized is the input of contract.large.v1.
	Sized struct{ Size int }
	// Attempted is the result of handlers that fail first.
	Attempted struct {
		Attempt int `json:"attempt"`
	}
)
