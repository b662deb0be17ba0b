package windlass

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/loop"
)

const (
	silence   = time.Minute // the server sends something every 15 seconds
	longest   = 16 << 20    // bytes of a line
	endOfFlow = "end"
)

// Event is one event of a stream. A stream that starts after ID continues with the event that follows this one.
type Event struct {
	ID    string
	Event string
	Data  json.RawMessage
}

// Decode decodes the data of the event into a value.
func (e Event) Decode(into any) error { return json.Unmarshal(e.Data, into) }

// events returns the events of a stream until it ends. A lost connection is reopened after the last event received.
func events(ctx context.Context, t *transport, c *call) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		reader := &eventReader{pause: time.Second}
		for failures := 0; ; {
			count, err := reader.connect(ctx, t, c, yield)
			if reader.ended {
				return
			}
			if count > 0 {
				failures = 0
			}
			failures++
			var failed *Error
			if ctx.Err() != nil {
				err = ctx.Err()
			} else if errors.As(err, &failed) && mayPass(failed) && failures <= t.retries+1 {
				if loop.Sleep(ctx, max(reader.pause, failed.RetryAfter)) {
					continue
				}
				err = ctx.Err()
			}
			yield(Event{}, err)
			return
		}
	}
}

// eventReader keeps the position in a stream across connections.
type eventReader struct {
	lastID string
	pause  time.Duration
	ended  bool // by the server's end event, or by the caller
}

// connect reads one connection until it ends. It returns the number of events, and the error that ended the connection.
func (r *eventReader) connect(ctx context.Context, t *transport, c *call, yield func(Event, error) bool) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	next := *c
	next.header = http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-store"}}
	if r.lastID != "" {
		next.header.Set("Last-Event-ID", r.lastID)
	}
	response, err := t.send(ctx, &next, nil)
	if err != nil {
		return 0, unreachable(t.base, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNoContent { // the stream has ended
		r.ended = true
		return 0, nil
	}
	if response.StatusCode != http.StatusOK {
		content, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		return 0, errorOf(response.StatusCode, response.Header, content, t.base+c.path)
	}
	count := 0
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 0, 4096), longest)
	event, id, data := "", r.lastID, []string(nil)
	for lines.Scan() {
		watchdog.Reset(silence)
		line := lines.Text()
		if line == "" {
			r.lastID = id
			if data == nil {
				event = ""
				continue
			}
			received := Event{ID: id, Event: event, Data: json.RawMessage(strings.Join(data, "\n"))}
			if received.Event == "" {
				received.Event = "message"
			}
			count++
			r.ended = received.Event == endOfFlow
			if !yield(received, nil) {
				r.ended = true
			}
			if r.ended {
				return count, nil
			}
			event, data = "", nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data = append(data, value)
		case "event":
			event = value
		case "id":
			id = value
		case "retry":
			if ms, err := strconv.Atoi(value); err == nil {
				r.pause = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if err := lines.Err(); err != nil {
		return count, unreachable(t.base, err)
	}
	return count, unreachable(t.base, fmt.Errorf("the stream of %s broke off", c.path))
}

// Download is the content of a file. The caller closes it.
type Download struct {
	io.ReadCloser
	// Size is the number of bytes, -1 if it is not known.
	Size int64
	// Type is the media type.
	Type string
}

func download(ctx context.Context, t *transport, c *call) (*Download, error) {
	response, err := t.send(ctx, c, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, unreachable(t.base, err)
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
		defer response.Body.Close()
		content, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		return nil, errorOf(response.StatusCode, response.Header, content, t.base+c.path)
	}
	return &Download{response.Body, response.ContentLength, response.Header.Get("Content-Type")}, nil
}
