package loop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Handlers are the handlers of a worker, by type or by pattern: billing.% matches every type with the prefix
// "billing.".
type Handlers struct {
	mu       sync.Mutex
	byName   map[string]Handler
	patterns []string // longest first
	isUsed   bool
}

// Add registers a handler. It panics if the type already has a handler or if the worker has started.
func (h *Handlers) Add(name string, handle Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isUsed {
		panic("windlass: the worker is running: register handlers before Run")
	}
	if _, ok := h.byName[name]; ok {
		panic(fmt.Sprintf("windlass: %s already has a handler", name))
	}
	if h.byName == nil {
		h.byName = map[string]Handler{}
	}
	h.byName[name] = handle
	if strings.HasSuffix(name, "%") {
		h.patterns = append(h.patterns, name)
		slices.SortFunc(h.patterns, func(a, b string) int { return len(b) - len(a) })
	}
}

// Start returns the registered types and patterns, sorted. After that, Add panics. Start returns an error if there are
// no handlers or if it was called before.
func (h *Handlers) Start() ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isUsed || len(h.byName) == 0 {
		return nil, errors.New("windlass: a worker needs a handler, and runs once")
	}
	h.isUsed = true
	names := make([]string, 0, len(h.byName))
	for name := range h.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// find returns the handler of a type: its own, else that of the longest matching pattern, else nil. It takes no lock:
// it is called only after Start, when no handler can be added any more.
func (h *Handlers) find(jobType string) Handler {
	if handle := h.byName[jobType]; handle != nil {
		return handle
	}
	for _, pattern := range h.patterns {
		if strings.HasPrefix(jobType, strings.TrimSuffix(pattern, "%")) {
			return h.byName[pattern]
		}
	}
	return nil
}
