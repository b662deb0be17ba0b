// Package windlass is the Go SDK of Windlass, a durable workflow engine on Postgres.
//
// [Client] has every operation of the HTTP API. [Worker] executes jobs over HTTP: it fetches jobs in batches, extends
// their leases with heartbeats, reports outcomes in batches, and drains when its context ends. The package inbox does
// the same over plain SQL, without a server in between.
//
// The package depends only on the standard library.
package windlass
