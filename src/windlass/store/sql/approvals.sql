-- Approvals: steps of runs that wait for the decision of a person. Rows are changed under the lock of their run.

-- name: insert
-- scope: owned
-- Insert the approvals of steps that start to wait. Roles are separated by commas.
insert into windlass.approval (id, org, run_id, step, round, task, message, form, roles, requested_at, until)
select a.id, r.org, a.run_id, a.step, a.round, a.task, a.message, a.form::jsonb, string_to_array(a.roles, ','),
       a.requested_at, a.until
  from unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[],
              $9::timestamptz[], $10::timestamptz[])
    as a(id, run_id, step, round, task, message, form, roles, requested_at, until)
  join only windlass.run r on r.id = a.run_id
on conflict (run_id, step, round) do nothing

-- name: open_of_steps
-- scope: owned
-- Return the open approvals of these steps, whose timers have fired. The caller holds the locks of the runs.
select a.id, a.run_id, a.step, a.requested_at, a.until, a.escalated_at, a.reminded_at
  from unnest($1::uuid[], $2::int[]) as s(run_id, step)
  join windlass.approval a on a.run_id = s.run_id and a.step = s.step and a.state = 'open'

-- name: cancel
-- scope: owned
-- Close the open approvals of these steps, because their runs were stopped. The caller holds the locks of the runs.
update windlass.approval a set state = 'cancelled', decided_at = windlass.now()
  from unnest($1::uuid[], $2::int[]) as s(run_id, step)
 where a.run_id = s.run_id and a.step = s.step and a.state = 'open'

-- name: decide
-- scope: owned
-- Close an open approval with a decision, or without one if it has expired. The caller holds the lock of the run.
-- Returns no row if the approval is not open.
update windlass.approval
   set state = $2, decided_at = windlass.now(), decided_by = $3, form_values = $4::jsonb, comment = $5
 where id = $1 and state = 'open' returning decided_at

-- name: escalate
-- scope: owned
-- Escalate an open approval: replace the roles that may decide and the deadline. The caller holds the lock of the run.
update windlass.approval set escalated_at = $4, roles = $2, until = $3 where id = $1 and state = 'open'

-- name: remind
-- scope: owned
-- Record when the event of these approvals is published again. The caller holds the locks of the runs.
update windlass.approval a set reminded_at = r.at
  from unnest($1::uuid[], $2::timestamptz[]) as r(id, at)
 where a.id = r.id and a.state = 'open'

-- name: decisions
-- scope: owned
-- Return the decision of the latest approval of each of these steps, if it has one.
select a.run_id, a.step, a.state, a.decided_by, a.decided_at, a.form_values, a.comment
  from unnest($1::uuid[], $2::int[]) as s(run_id, step) cross join lateral (
    select * from windlass.approval a where a.run_id = s.run_id and a.step = s.step order by a.round desc limit 1) as a
 where a.state in ('approved', 'rejected')

-- name: of_run
-- scope: owned
-- Return who may decide the open approvals of a run, and until when.
select step, roles, until from windlass.approval where run_id = $1 and state = 'open'

-- name: find
-- scope: org
-- Return an approval of an org.
select a.id, a.org, a.run_id, a.step, a.round, w.name as workflow, a.task, a.state, a.message, a.form, a.roles, a.requested_at, a.until,
       a.escalated_at, a.reminded_at, a.decided_at, a.decided_by, a.form_values, a.comment
  from windlass.approval a
  join windlass.run r on r.id = a.run_id
  join windlass.workflow w on w.id = r.workflow_id
 where a.id = $1 and a.org = $2

-- name: of_steps
-- scope: global
-- Return the latest approval of each of these steps, for the events about it.
select a.run_id, a.step, a.id, a.message, a.form, a.roles, a.until
  from unnest($1::uuid[], $2::int[]) as s(run_id, step) cross join lateral (
    select * from windlass.approval a where a.run_id = s.run_id and a.step = s.step order by a.round desc limit 1) as a

-- name: open_of_ids
-- scope: global
-- Return the fields from which links to these approvals are built, of those that are open.
select id, round, until from windlass.approval where id = any($1) and state = 'open'

-- name: org_of
-- scope: global
-- Return the org of an approval, for the holder of a signed link.
select org from windlass.approval where id = $1

-- name: list
-- scope: org
-- List at most $7 approvals of an org: the open ones first, then the others, newest first. Filtered by states, workflow
-- and run. $5 and $6 are the position of the last one seen: whether it was open, and its id.
select a.id, a.org, a.run_id, a.step, a.round, w.name as workflow, a.task, a.state, a.message, a.form, a.roles, a.requested_at, a.until,
       a.escalated_at, a.reminded_at, a.decided_at, a.decided_by, a.form_values, a.comment
  from ((select true as is_open, a.* from windlass.approval a join windlass.run r on r.id = a.run_id
          where a.org = $1 and a.state = 'open' and ($2::text[] is null or 'open' = any($2))
            and ($3::uuid is null or r.workflow_id = $3) and ($4::uuid is null or a.run_id = $4)
            and ($5::boolean is null or $5 and a.id < $6::uuid)
          order by a.id desc limit $7)
        union all
        (select false, a.* from windlass.approval a join windlass.run r on r.id = a.run_id
          where a.org = $1 and a.state <> 'open' and ($2::text[] is null or a.state = any($2))
            and ($3::uuid is null or r.workflow_id = $3) and ($4::uuid is null or a.run_id = $4)
            and ($5::boolean is null or $5 or a.id < $6::uuid)
          order by a.id desc limit $7)) as a
  join windlass.run r on r.id = a.run_id
  join windlass.workflow w on w.id = r.workflow_id
 order by a.is_open desc, a.id desc limit $7
