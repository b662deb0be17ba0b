package loop

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"
)

const (
	defaultConcurrency = 10
	defaultLease       = 30 * time.Second
	defaultGrace       = 30 * time.Second
	leastLease         = 100 * time.Millisecond
)

// Options are the options that the workers over HTTP and over SQL share.
type Options struct {
	ID           string
	Concurrency  int
	Lease, Grace time.Duration
	Logger       *slog.Logger
}

// Complete returns the options with defaults in place of zero values, or an error if a value is out of range.
func (o Options) Complete() (Options, error) {
	if o.Concurrency < 0 || o.Grace < 0 || o.Lease < 0 || (o.Lease > 0 && o.Lease < leastLease) {
		return o, errors.New("the options Concurrency, Lease and Grace must not be negative, and Lease must be at least " + leastLease.String())
	}
	if o.ID == "" {
		host, _ := os.Hostname()
		o.ID = fmt.Sprintf("%s-%d-%06x", host, os.Getpid(), rand.N(1<<24))
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = o.Logger.With("worker", o.ID)
	o.Concurrency = cmp.Or(o.Concurrency, defaultConcurrency)
	o.Lease = cmp.Or(o.Lease, defaultLease)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	return o, nil
}
