-- Organisations.

-- name: insert
-- scope: global
-- Insert an org; no row is returned if it already exists.
insert into windlass.org (name, plan) values ($1, $2) on conflict do nothing returning name, plan, created_at, disabled_at

-- name: get
-- scope: global
-- Return an org.
select name, plan, created_at, disabled_at from windlass.org where name = $1

-- name: list
-- scope: global
-- List at most $2 orgs by name, after name $1.
select name, plan, created_at, disabled_at from windlass.org where name > $1 order by name limit $2

-- name: disable
-- scope: global
-- Disable an org. An org that is already disabled keeps its time.
update windlass.org set disabled_at = coalesce(disabled_at, windlass.now()) where name = $1
returning name, plan, created_at, disabled_at

-- name: enable
-- scope: global
-- Enable an org again.
update windlass.org set disabled_at = null where name = $1 returning name, plan, created_at, disabled_at

-- name: plans
-- scope: global
-- Return the names of all plans.
select name from windlass.plan order by name

-- name: default_queue
-- scope: global
-- Return a queue of the org `default` whose name begins with $1, from waiting and leased jobs and from settings of queues.
select queue from (
  select queue from windlass.lane union all select queue from windlass.waiting_queue
  union all select queue from workflow.workflow_run where status = 'leased'
  union all select name from windlass.queue) as known
 where starts_with(queue, $1) limit 1

-- name: is_alone
-- scope: global
-- Return whether `default` is the only org.
select not exists (select from windlass.org where name <> 'default')

-- name: create_api_role
-- scope: global
-- Create the role that row-level security applies to.
select windlass.create_api_role()

-- name: user
-- scope: global
-- Return the role of this session, quoted.
select quote_ident(current_user)
