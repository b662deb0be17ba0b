package windlass

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	defaultURL     = "http://127.0.0.1:8080"
	defaultTimeout = 30 * time.Second
	defaultRetries = 3
)

// Option is an option of [NewClient].
type Option func(*transport)

// WithKey sets the API key. Without it the client reads WINDLASS_API_KEY from the environment.
func WithKey(key string) Option { return func(t *transport) { t.key = key } }

// WithOrg sets the org to act for. Only the operator's key needs one; the key of an org always acts for that org.
// Without it the client reads WINDLASS_ORG from the environment.
func WithOrg(org string) Option { return func(t *transport) { t.org = org } }

// WithTimeout sets the timeout of each attempt at a request: 30 seconds by default.
func WithTimeout(timeout time.Duration) Option { return func(t *transport) { t.timeout = timeout } }

// WithRetries sets the maximum number of retries of a request that is safe to repeat: 3 by default.
func WithRetries(retries int) Option { return func(t *transport) { t.retries = retries } }

// WithHTTPClient sets the HTTP client, for proxies, certificates and instrumentation.
func WithHTTPClient(client *http.Client) Option { return func(t *transport) { t.http = client } }

// NewClient returns a client for the server at an address such as http://127.0.0.1:8080, which is also the default. If
// the address is empty, the client reads WINDLASS_URL from the environment.
func NewClient(address string, options ...Option) (*Client, error) {
	t, err := newTransport(address, options...)
	if err != nil {
		return nil, err
	}
	return newClient(t), nil
}

func newTransport(address string, options ...Option) (*transport, error) {
	key, _, _ := strings.Cut(os.Getenv("WINDLASS_API_KEY"), ",")
	t := &transport{
		key:     strings.TrimSpace(key),
		org:     strings.TrimSpace(os.Getenv("WINDLASS_ORG")),
		timeout: defaultTimeout,
		retries: defaultRetries,
	}
	for _, option := range options {
		option(t)
	}
	if t.http == nil {
		t.http = newHTTPClient()
	}
	if address == "" {
		address = os.Getenv("WINDLASS_URL")
	}
	if address == "" {
		address = defaultURL
	}
	base, err := serverURL(address)
	if err != nil {
		return nil, err
	}
	t.base = base
	for name, value := range map[string]string{"key": t.key, "org": t.org} {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, &Error{Status: http.StatusBadRequest, Field: name, Detail: name + " has characters that are not allowed in a header"}
		}
	}
	return t, nil
}

// newHTTPClient returns a client that keeps enough idle connections for the concurrent requests of a worker.
func newHTTPClient() *http.Client {
	rounds := http.DefaultTransport.(*http.Transport).Clone()
	rounds.MaxIdleConnsPerHost = 32
	return &http.Client{Transport: rounds}
}

// serverURL returns the address of a server without the path of the API, or an error if it is not an HTTP URL.
func serverURL(address string) (string, error) {
	address = strings.TrimSuffix(strings.TrimRight(strings.TrimSpace(address), "/"), "/api/v1")
	parts, err := url.Parse(address)
	if err != nil || (parts.Scheme != "http" && parts.Scheme != "https") || parts.Host == "" ||
		parts.RawQuery != "" || parts.Fragment != "" {
		detail := fmt.Sprintf("url is %q: it must look like %s", address, defaultURL)
		return "", &Error{Status: http.StatusBadRequest, Field: "url", Detail: detail}
	}
	return address, nil
}
