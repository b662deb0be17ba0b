-- Plans: the limits of the orgs that have them. A limit of null means unlimited.

-- name: list
-- scope: global
-- List the plans by name, each with the number of orgs that have it. With $1, only the plan of that name.
select p.name, p.workflows, p.steps_per_workflow, p.runs_at_once, p.executions_per_month, p.executions_at_once, p.schedules,
       (select count(*) from windlass.org o where o.plan = p.name) as orgs, p.created_at, p.updated_at
  from windlass.plan p where $1::text is null or p.name = $1
 order by p.name

-- name: lock
-- scope: global
-- Lock a plan and return its limits. The lock prevents a plan from being assigned to an org while it is deleted.
select workflows, steps_per_workflow, runs_at_once, executions_per_month, executions_at_once, schedules
  from windlass.plan where name = $1 for update

-- name: put
-- scope: global
-- Insert a plan, or replace its limits.
insert into windlass.plan (name, workflows, steps_per_workflow, runs_at_once, executions_per_month, executions_at_once, schedules)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (name) do update
   set workflows = excluded.workflows, steps_per_workflow = excluded.steps_per_workflow, runs_at_once = excluded.runs_at_once,
       executions_per_month = excluded.executions_per_month, executions_at_once = excluded.executions_at_once,
       schedules = excluded.schedules, updated_at = windlass.now()

-- name: orgs
-- scope: global
-- Return the first $2 orgs that have a plan.
select name from windlass.org where plan = $1 order by name limit $2

-- name: delete
-- scope: global
-- Delete a plan that no org has.
delete from windlass.plan where name = $1

-- name: assign
-- scope: global
-- Assign a plan to an org. Returns its previous plan.
with former as (select name, plan from windlass.org where name = $1 for update)
update windlass.org o set plan = $2 from former where o.name = former.name returning former.plan
