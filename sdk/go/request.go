package windlass

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/loop"
)

const (
	firstPause  = 200 * time.Millisecond
	mostPause   = 10 * time.Second
	mostWait    = time.Minute // requests are not repeated after a longer Retry-After
	maxAnswer   = 256 << 20   // bytes
	contentJSON = "application/json"
)

// transport sends requests to one server.
type transport struct {
	base    string
	key     string
	org     string
	timeout time.Duration
	retries int
	http    *http.Client
}

// call is one operation: what to request, and whether repeating it is safe.
type call struct {
	method  string
	path    string // with escaped values
	query   url.Values
	header  http.Header
	body    any           // encoded as JSON unless nil
	wait    time.Duration // added to the timeout: the server may hold the request this long
	isSafe  bool          // the request is idempotent, whatever its method
	timeout time.Duration // instead of the transport's
}

// isRepeatable reports whether the request can be repeated safely. PUT and DELETE are not included: a repeated DELETE
// returns 404, and a repeated PUT could overwrite a change made in between.
func (c *call) isRepeatable() bool {
	return c.isSafe || c.method == http.MethodGet || c.header.Get("Idempotency-Key") != ""
}

// Page is one page of a list. Next is the cursor of the next page, "" on the last page.
type Page[T any] struct {
	Items []T
	Next  string
}

// one performs a call whose response is {"data": ...}.
func one[T any](ctx context.Context, t *transport, c *call) (*T, error) {
	var answer struct {
		Data T `json:"data"`
	}
	if err := t.perform(ctx, c, &answer); err != nil {
		return nil, err
	}
	return &answer.Data, nil
}

// raw performs a call whose response is {"data": ...}, with data of any JSON type.
func raw(ctx context.Context, t *transport, c *call) (json.RawMessage, error) {
	data, err := one[json.RawMessage](ctx, t, c)
	if err != nil {
		return nil, err
	}
	return *data, nil
}

// page performs a call whose response is {"data": [...], "next": cursor}.
func page[T any](ctx context.Context, t *transport, c *call) (*Page[T], error) {
	var answer struct {
		Data []T     `json:"data"`
		Next *cursor `json:"next"`
	}
	if err := t.perform(ctx, c, &answer); err != nil {
		return nil, err
	}
	result := &Page[T]{Items: answer.Data}
	if answer.Next != nil {
		result.Next = string(*answer.Next)
	}
	return result, nil
}

// cursor is a string or a number in JSON.
type cursor string

func (c *cursor) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = cursor(text)
		return nil
	}
	*c = cursor(data)
	return nil
}

// all returns the items of all pages. The sequence can be iterated several times, each time from the first page.
func all[T any](ctx context.Context, t *transport, c *call, name string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		next := *c
		for {
			result, err := page[T](ctx, t, &next)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, item := range result.Items {
				if !yield(item, nil) {
					return
				}
			}
			if result.Next == "" || name == "" {
				return
			}
			next.query = cloneQuery(next.query)
			next.query.Set(name, result.Next)
		}
	}
}

func cloneQuery(query url.Values) url.Values {
	copied := make(url.Values, len(query)+1)
	for name, values := range query {
		copied[name] = values
	}
	return copied
}

// none performs a call whose response has no content.
func none(ctx context.Context, t *transport, c *call) error {
	return t.perform(ctx, c, nil)
}

// text performs a call whose response is plain text.
func text(ctx context.Context, t *transport, c *call) (string, error) {
	var answer string
	err := t.perform(ctx, c, &answer)
	return answer, err
}

// once sends a request without retries and decodes the response.
func (t *transport) once(ctx context.Context, c *call, answer any) error {
	body, err := encode(c.body)
	if err != nil {
		return err
	}
	return t.attempt(ctx, c, body, answer)
}

func encode(body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf("the request cannot be encoded: %v", err), cause: err}
	}
	return encoded, nil
}

// perform sends a request and decodes the response. It repeats a failed request if that is safe and may succeed.
func (t *transport) perform(ctx context.Context, c *call, answer any) error {
	body, err := encode(c.body)
	if err != nil {
		return err
	}
	pause := firstPause
	for try := 0; ; try++ {
		err := t.attempt(ctx, c, body, answer)
		var failed *Error
		if err == nil || !errors.As(err, &failed) || ctx.Err() != nil {
			return err
		}
		wait := failed.RetryAfter
		if wait == 0 {
			wait = loop.Jitter(pause)
		}
		if try >= t.retries || !c.isRepeatable() || !mayPass(failed) || wait > mostWait {
			return err
		}
		if !loop.Sleep(ctx, wait) {
			return ctx.Err()
		}
		pause = min(pause*2, mostPause)
	}
}

// mayPass reports whether the same request can succeed later.
func mayPass(failed *Error) bool {
	switch failed.Status {
	case 0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func (t *transport) attempt(ctx context.Context, c *call, body []byte, answer any) error {
	timeout := t.timeout
	if c.timeout != 0 {
		timeout = c.timeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout+c.wait)
	defer cancel()
	response, err := t.send(limited, c, body)
	if err != nil {
		return t.withoutAnswer(ctx, limited, err, timeout+c.wait)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return t.withoutAnswer(ctx, limited, err, timeout+c.wait)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return errorOf(response.StatusCode, response.Header, content, t.base+c.path)
	}
	switch into := answer.(type) {
	case nil:
		return nil
	case *string:
		*into = string(content)
		return nil
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return &Error{
			Status: response.StatusCode, cause: err, Hint: "check the address and the version of the server",
			Detail: fmt.Sprintf("the response of %s cannot be read: %v", t.base+c.path, err),
		}
	}
	return nil
}

// withoutAnswer returns the error of the caller's context if that context ended, else why there was no response.
func (t *transport) withoutAnswer(ctx, limited context.Context, err error, timeout time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if limited.Err() != nil {
		return unreachable(t.base, fmt.Errorf("no response within %s", timeout))
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // the message already contains the address
	}
	return unreachable(t.base, err)
}

func (t *transport) send(ctx context.Context, c *call, body []byte) (*http.Response, error) {
	address := t.base + c.path
	if len(c.query) > 0 {
		address += "?" + c.query.Encode()
	}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, c.method, address, content)
	if err != nil {
		return nil, err
	}
	for name, values := range c.header {
		request.Header[name] = values
	}
	if body != nil {
		request.Header.Set("Content-Type", contentJSON)
	}
	if t.key != "" {
		request.Header.Set("Authorization", "Bearer "+t.key)
	}
	if t.org != "" {
		request.Header.Set("X-Windlass-Org", t.org)
	}
	return t.http.Do(request)
}
