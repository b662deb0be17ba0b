package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const mostTicks = 10 // schedules that one Tick serves

// NewSchedule is a schedule to create. Zero values are replaced by the defaults of the table.
type NewSchedule struct {
	// Type and Payload are those of the jobs that it submits.
	Type    string
	Payload any
	// Cron is an expression with five fields: "30 2 * * mon-fri".
	Cron string
	// Timezone is the name of the time zone of the expression, UTC by default.
	Timezone string
	// Priority is the priority of its jobs, 100 if it is nil.
	Priority *int
	// MaxAttempts is the maximum number of attempts of its jobs, 3 by default.
	MaxAttempts int
}

// Schedule is a row of workflow_schedule.
type Schedule struct {
	ID, Type, Cron, Timezone string
	Payload                  json.RawMessage
	NextRunAt                time.Time
	LastRunAt                *time.Time
	IsEnabled                bool
	Priority, MaxAttempts    int
}

// CreateSchedule inserts a schedule and returns its id. Both Windlass and [Inbox.Tick] submit its jobs; each tick
// submits only one job.
func (i *Inbox) CreateSchedule(ctx context.Context, schedule NewSchedule) (string, error) {
	if schedule.Type == "" {
		return "", fmt.Errorf("inbox: Type is empty")
	}
	if schedule.Timezone == "" {
		schedule.Timezone = "UTC"
	}
	next, err := nextRun(schedule.Cron, schedule.Timezone, time.Now())
	if err != nil {
		return "", err
	}
	payload := []byte("{}")
	if schedule.Payload != nil {
		if payload, err = json.Marshal(schedule.Payload); err != nil {
			return "", fmt.Errorf("inbox: Payload cannot be encoded: %w", err)
		}
	}
	var id string
	err = i.db.QueryRowContext(ctx, i.query(`
insert into workflow.workflow_schedule (id, type, payload, schedule, timezone, next_run_at, priority, max_attempts)
values ($1, $2, $3::text::jsonb, $4, $5, $6, $7, $8)
returning id`), newID(), schedule.Type, string(payload), schedule.Cron, schedule.Timezone, next, value(schedule.Priority, 100),
		value(nonZero(schedule.MaxAttempts), 3)).Scan(&id)
	return id, err
}

// nextRun returns the first time after a time at which an expression fires.
func nextRun(expression, timezone string, after time.Time) (time.Time, error) {
	parsed, err := parseCron(expression)
	if err != nil {
		return time.Time{}, err
	}
	zone, err := time.LoadLocation(timezone)
	if err != nil {
		return time.Time{}, fmt.Errorf("inbox: the time zone %q is unknown: %w", timezone, err)
	}
	return parsed.next(after, zone)
}

// Schedules returns all schedules, oldest first.
func (i *Inbox) Schedules(ctx context.Context) ([]Schedule, error) { return i.schedules(ctx, "true") }

func (i *Inbox) schedules(ctx context.Context, condition string) ([]Schedule, error) {
	rows, err := i.db.QueryContext(ctx, i.query(`
select id, type, payload::text, schedule, timezone, next_run_at, last_run_at, enabled, priority, max_attempts
  from workflow.workflow_schedule where deleted_at is null and `+condition+` order by created_at, id`))
	if err != nil {
		return nil, err
	}
	return collect(rows, func(scan func(...any) error) (Schedule, error) {
		var one Schedule
		var payload string
		err := scan(&one.ID, &one.Type, &payload, &one.Cron, &one.Timezone, &one.NextRunAt, &one.LastRunAt, &one.IsEnabled,
			&one.Priority, &one.MaxAttempts)
		one.Payload = json.RawMessage(payload)
		return one, err
	})
}

// PauseSchedule pauses a schedule until [Inbox.ResumeSchedule].
func (i *Inbox) PauseSchedule(ctx context.Context, id string) error {
	return i.changeSchedule(ctx, id, "enabled = false")
}

// ResumeSchedule resumes a paused schedule.
func (i *Inbox) ResumeSchedule(ctx context.Context, id string) error {
	return i.changeSchedule(ctx, id, "enabled = true")
}

// DeleteSchedule marks a schedule as deleted. Its row is kept.
func (i *Inbox) DeleteSchedule(ctx context.Context, id string) error {
	return i.changeSchedule(ctx, id, "deleted_at = now(), enabled = false")
}

func (i *Inbox) changeSchedule(ctx context.Context, id, change string) error {
	result, err := i.db.ExecContext(ctx, i.query(
		`update workflow.workflow_schedule set `+change+`, updated_at = now() where id = $1 and deleted_at is null`), id)
	if err != nil {
		return err
	}
	if count, err := result.RowsAffected(); err != nil || count > 0 {
		return err
	}
	return fmt.Errorf("inbox: schedule %s: %w", id, ErrNotFound)
}

// The idempotency key is the one that Windlass and the other clients use, so that a tick submits only one job, even if
// several of them serve it. The condition on next_run_at skips a tick that was served after it was read.
const tickStatement = `
with due as (
  select id, type, payload, priority, max_attempts, next_run_at from workflow.workflow_schedule
   where id = $1 and next_run_at = $2 and next_run_at <= now() and enabled and deleted_at is null
     for update skip locked
), submitted as (
  insert into workflow.workflow_run (id, type, payload, priority, run_at, idempotency_key, max_attempts)
  select $4::text::uuid, type, payload, priority, now(), 'schedule:' || id || ':' || extract(epoch from next_run_at)::bigint, max_attempts
    from due
  on conflict (idempotency_key) do nothing
)
update workflow.workflow_schedule s
   set next_run_at = $3, last_run_at = now(), updated_at = now()
  from due
 where s.id = due.id
returning s.id`

// Tick submits the jobs of at most ten due schedules and returns the number of schedules served. A schedule that was
// due several times submits one job. Windlass does this automatically; a program needs it only on a database without
// Windlass.
//
// A schedule that cannot be evaluated is skipped. Tick returns the joined errors of all such schedules.
func (i *Inbox) Tick(ctx context.Context) (int, error) {
	due, err := i.schedules(ctx, "enabled and next_run_at <= now()")
	if err != nil {
		return 0, err
	}
	served, failures := 0, []error(nil)
	for _, one := range due[:min(len(due), mostTicks)] {
		next, err := nextRun(one.Cron, one.Timezone, time.Now())
		if err == nil {
			var ids []string
			ids, err = i.tick(ctx, one, next)
			served += len(ids)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("schedule %s: %w", one.ID, err))
		}
	}
	return served, errors.Join(failures...)
}

func (i *Inbox) tick(ctx context.Context, one Schedule, next time.Time) ([]string, error) {
	rows, err := i.db.QueryContext(ctx, i.query(tickStatement), one.ID, one.NextRunAt, next, newID())
	if err != nil {
		return nil, err
	}
	return collect(rows, func(scan func(...any) error) (id string, err error) { return id, scan(&id) })
}
