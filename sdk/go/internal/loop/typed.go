package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/windlass/windlass/sdk/go/internal/failure"
)

// Typed returns a handler that decodes the input and encodes the result.
func Typed[In, Out any](handle func(ctx context.Context, input In) (Out, error)) Handler {
	return func(ctx context.Context, job *Job) (json.RawMessage, error) {
		var input In
		if err := json.Unmarshal(job.Input, &input); err != nil {
			return nil, failure.NonRetryable(&failure.InvalidInput{Type: job.Type, Cause: err})
		}
		output, err := handle(ctx, input)
		if err != nil {
			return nil, err
		}
		return Encode(output)
	}
}

// Encode returns a result as JSON. A result that cannot be encoded fails the job without a retry.
func Encode(value any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, failure.NonRetryable(fmt.Errorf("the result cannot be encoded: %w", err))
	}
	return bytes.TrimSpace(buffer.Bytes()), nil
}
