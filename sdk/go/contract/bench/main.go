// Command bench measures how many no-op jobs per second a worker executes, over HTTP or over SQL:
//
//	go run ./bench -over http -jobs 20000    # WINDLASS_URL
//	go run ./bench -over sql -jobs 50000     # WINDLASS_DSN
//
// It submits the jobs first, to a separate queue or with a separate type, then starts the worker.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	windlass "github.com/windlass/windlass/sdk/go"
	"github.com/windlass/windlass/sdk/go/inbox"
)

const batch = 1000

func main() {
	over := flag.String("over", "http", "http or sql")
	jobs := flag.Int("jobs", 20000, "number of jobs")
	concurrency := flag.Int("concurrency", 500, "handlers at the same time")
	flag.Parse()
	measure := map[string]func(context.Context, *bench, int, string) (time.Duration, error){"http": overHTTP, "sql": overSQL}[*over]
	if measure == nil {
		log.Fatal("-over must be http or sql")
	}
	name := fmt.Sprintf("bench%d", time.Now().UnixNano())
	b := &bench{jobs: int64(*jobs), done: make(chan struct{})}
	took, err := measure(context.Background(), b, *concurrency, name)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d jobs in %.2f s: %.0f jobs/s, %.1f µs of CPU per job in this process\n", *over, *jobs, took.Seconds(),
		float64(*jobs)/took.Seconds(), float64((cpu()-b.before).Microseconds())/float64(*jobs))
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// bench counts the jobs that were executed.
type bench struct {
	jobs   int64
	count  atomic.Int64
	done   chan struct{}
	before time.Duration // CPU time used before the worker started
}

func (b *bench) handle(context.Context, any) (any, error) {
	if b.count.Add(1) == b.jobs {
		close(b.done)
	}
	return nil, nil
}

// measure runs a worker until all jobs are executed and reported. It returns the time until the last handler returned,
// without the drain after that.
func (b *bench) measure(ctx context.Context, run func(context.Context) error) (time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	took := make(chan time.Duration, 1)
	go func() {
		<-b.done
		took <- time.Since(began)
		stop()
	}()
	if err := run(ctx); err != nil {
		return 0, err
	}
	return <-took, nil
}

func overHTTP(ctx context.Context, b *bench, concurrency int, name string) (time.Duration, error) {
	client, err := windlass.NewClient("")
	if err != nil {
		return 0, err
	}
	for left := int(b.jobs); left > 0; left -= batch {
		jobs := make([]windlass.JobsSubmitManyJob, min(left, batch))
		for n := range jobs {
			jobs[n] = windlass.JobsSubmitManyJob{Type: "bench.noop.v1", Queue: name}
		}
		if _, err := client.Jobs.SubmitMany(ctx, &windlass.JobsSubmitManyParams{Jobs: jobs}); err != nil {
			return 0, err
		}
	}
	b.before = cpu()
	worker, err := windlass.NewWorker(windlass.WorkerOptions{Queues: []string{name}, Concurrency: concurrency})
	if err != nil {
		return 0, err
	}
	windlass.Handle(worker, "bench.noop.v1", b.handle)
	return b.measure(ctx, worker.Run)
}

func overSQL(ctx context.Context, b *bench, concurrency int, name string) (time.Duration, error) {
	db, err := sql.Open("pgx", os.Getenv("WINDLASS_DSN"))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	for left := int(b.jobs); left > 0; left -= batch {
		jobs := make([]inbox.NewJob, min(left, batch))
		for n := range jobs {
			jobs[n] = inbox.NewJob{Type: name + ".noop.v1"}
		}
		if _, err := inbox.New(db).SubmitMany(ctx, jobs); err != nil {
			return 0, err
		}
	}
	// The server writes the created events of bulk inserts within a second or two; until then claiming is slower.
	for late := true; late; time.Sleep(100 * time.Millisecond) {
		query := `select exists (select from workflow.workflow_run where needs_created_event)`
		if err := db.QueryRowContext(ctx, query).Scan(&late); err != nil {
			return 0, err
		}
	}
	b.before = cpu()
	runtime := inbox.NewRuntime(db, inbox.RuntimeOptions{Concurrency: concurrency})
	inbox.Handle(runtime, name+".noop.v1", b.handle)
	return b.measure(ctx, runtime.Run)
}
