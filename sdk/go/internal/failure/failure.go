// Package failure defines the errors that describe how an attempt ended. The package windlass exports and documents
// those that handlers use.
package failure

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Causes with which the context of a handler is cancelled.
var (
	ErrCancelled = errors.New("the job was cancelled")
	ErrLost      = errors.New("the lease of the job was lost")
	ErrTimeout   = errors.New("the job timed out")
	ErrDraining  = errors.New("the worker is stopping")
)

// NonRetryable marks an error as final: the job gets no further attempts.
func NonRetryable(err error) error {
	if err == nil {
		return nil
	}
	return &directed{error: err, isFinal: true}
}

// RetryAfter marks an error with the delay before the next attempt.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		return nil
	}
	return &directed{error: err, delay: &delay}
}

// directed is an error with a directive for the retry.
type directed struct {
	error
	isFinal bool
	delay   *time.Duration
}

func (d *directed) Unwrap() error { return d.error }

// Panic is the error of a handler that panicked.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Failure is the error of an attempt as it is reported.
type Failure struct {
	Code      string         `json:"code"`
	Type      string         `json:"type"`
	Message   string         `json:"message"`
	Retryable *bool          `json:"retryable,omitempty"`
	Details   map[string]any `json:"details,omitempty"`
}

// Of returns the reported form of an error, and the delay before the next attempt if the handler set one.
func Of(err error) (*Failure, *time.Duration) {
	name := typeName(err)
	result := &Failure{Code: name, Type: name, Message: err.Error()}
	var delay *time.Duration
	var direction *directed
	if errors.As(err, &direction) {
		delay = direction.delay
		if direction.isFinal {
			result.Retryable = new(bool)
		}
	}
	var panicking *Panic
	if errors.As(err, &panicking) {
		result.Code, result.Type = "panic", "panic"
		result.Details = map[string]any{"stack": string(panicking.Stack)}
	}
	if errors.Is(err, context.DeadlineExceeded) && name == "error" {
		result.Code, result.Type = "timeout", "timeout"
	}
	return result, delay
}

// InvalidInput is the error of a job whose input cannot be decoded into the input type of its handler.
type InvalidInput struct {
	Type  string
	Cause error
}

// Error returns the message, with the type of the job and the error of the decoder.
func (e *InvalidInput) Error() string {
	return fmt.Sprintf("the input does not fit %s: %v", e.Type, e.Cause)
}

// Unwrap returns the error of the decoder.
func (e *InvalidInput) Unwrap() error { return e.Cause }

// typeName returns the name of the first type in a chain of errors that is not a wrapper of the standard library:
// BadInput for *shop.BadInput. For errors made by errors.New and fmt.Errorf it returns "error".
func typeName(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		if _, ok := err.(*directed); ok {
			continue
		}
		kind := reflect.TypeOf(err)
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch kind.PkgPath() {
		case "fmt", "errors", "context":
			continue
		}
		if kind.Name() != "" {
			return strings.TrimPrefix(kind.Name(), "*")
		}
	}
	return "error"
}
