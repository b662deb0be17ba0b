// Command inbox calls the operations of the package inbox other than the worker, on the database WINDLASS_DSN, and
// prints the results as JSON. tests/sdk/test_go.py compares them with the tables.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/windlass/windlass/sdk/go/inbox"
)

func main() {
	db, err := sql.Open("pgx", os.Getenv("WINDLASS_DSN"))
	check(err)
	defer db.Close()
	ctx := context.Background()
	box := inbox.New(db)
	seen := map[string]any{}
	submit(ctx, db, box, seen)
	schedule(ctx, db, box, seen)
	check(json.NewEncoder(os.Stdout).Encode(seen))
}

func submit(ctx context.Context, db *sql.DB, box *inbox.Inbox, seen map[string]any) {
	first, err := box.Submit(ctx, inbox.NewJob{Type: "go.first.v1", Payload: map[string]any{"n": 1}, IdempotencyKey: "one"})
	check(err)
	again, err := box.Submit(ctx, inbox.NewJob{Type: "go.first.v1", IdempotencyKey: "one"})
	check(err)
	seen["duplicate"] = again.IsDuplicate && again.ID == first.ID
	tx, err := db.BeginTx(ctx, nil)
	check(err)
	_, err = box.In(tx).Submit(ctx, inbox.NewJob{Type: "go.undone.v1"})
	check(err)
	check(tx.Rollback())
	check(box.Cancel(ctx, first.ID))
	seen["ended"] = errors.Is(box.Cancel(ctx, first.ID), inbox.ErrEnded)
	seen["unknown"] = errors.Is(box.Cancel(ctx, "00000000-0000-4000-8000-000000000000"), inbox.ErrNotFound)
	run, err := box.Get(ctx, first.ID)
	check(err)
	seen["status"] = run.Status
}

func schedule(ctx context.Context, db *sql.DB, box *inbox.Inbox, seen map[string]any) {
	id, err := box.CreateSchedule(ctx, inbox.NewSchedule{
		Type: "go.nightly.v1", Payload: map[string]any{"full": true}, Cron: "0 3 * * *", Timezone: "Europe/Berlin",
	})
	check(err)
	_, err = box.CreateSchedule(ctx, inbox.NewSchedule{Type: "go.nightly.v1", Cron: "0 25 * * *"})
	seen["mistake"] = fmt.Sprint(err)
	list, err := box.Schedules(ctx)
	check(err)
	seen["schedules"], seen["next_is_ahead"] = len(list), list[0].NextRunAt.After(time.Now())
	check(box.PauseSchedule(ctx, id))
	_, err = db.ExecContext(ctx, "update workflow.workflow_schedule set next_run_at = now() - interval '1 hour' where id = $1", id)
	check(err)
	paused, err := box.Tick(ctx)
	check(err)
	check(box.ResumeSchedule(ctx, id))
	served, err := box.Tick(ctx)
	check(err)
	again, err := box.Tick(ctx)
	check(err)
	seen["ticks"] = []int{paused, served, again}
	check(box.DeleteSchedule(ctx, id))
	seen["deleted"] = errors.Is(box.PauseSchedule(ctx, id), inbox.ErrNotFound)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
