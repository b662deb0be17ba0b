-- Workflows and their versions. A published version never changes, and each run is pinned to its version. Rows of workflows are
-- locked in the order of their names.

-- name: hold
-- scope: org
-- Lock the workflows with these names for publishing. A missing one is inserted without a version. The update without effect
-- locks an existing row.
insert into windlass.workflow (id, org, name, live)
select id, $3, name, 0 from unnest($1::uuid[], $2::text[]) as requested(id, name) order by name
on conflict (org, name) where deleted_at is null do update set live = workflow.live

-- name: publish
-- scope: org
-- Insert new versions and make them live. A document equal to the live version creates no new one. Call only under the
-- locks of `hold`.
-- The lateral limit keeps the plan on one probe per name.
with requested as (
  select w.id, w.live, a.document, a.fingerprint, a.input
    from unnest($2::text[], $3::jsonb[], $4::text[], $5::json[]) as a(name, document, fingerprint, input)
   cross join lateral (
     select w.id, w.live from windlass.workflow w where w.org = $1 and w.name = a.name and w.deleted_at is null limit 1) as w),
born as (
  insert into windlass.version (workflow_id, number, document, fingerprint, input)
  select a.id, coalesce((select max(v.number) from windlass.version v where v.workflow_id = a.id), 0) + 1, a.document, a.fingerprint,
         a.input
    from requested a
   where not exists (select from windlass.version v
                      where v.workflow_id = a.id and v.number = a.live and v.fingerprint = a.fingerprint)
  returning id, workflow_id, number),
moved as (
  update windlass.workflow w set live = born.number, updated_at = windlass.now() from born where w.id = born.workflow_id)
select id from born

-- name: live
-- scope: org
-- Return the live versions of these names and the current time: starting a run needs both.
select w.name, w.id as workflow_id, v.id as version_id, v.number, w.enabled, v.fingerprint, windlass.now() as now
  from windlass.workflow w
  join windlass.version v on v.workflow_id = w.id and v.number = w.live
 where w.org = $1 and w.name = any($2) and w.deleted_at is null

-- name: documents
-- scope: owned
-- Return the documents of these versions, of all orgs. A hidden workflow is the shape of compositions, and its name starts with
-- their kind.
select v.id, case when w.hidden then v.document || jsonb_build_object('primitive', split_part(w.name, '-', 1)) else v.document end as document,
       v.input
  from windlass.version v join windlass.workflow w on w.id = v.workflow_id where v.id = any($1)

-- name: get
-- scope: org
-- Return one workflow with version $3, or with its live version.
select w.name, w.id, v.id as version_id, v.number, w.live, w.enabled, v.document, v.fingerprint,
       v.created_at as published_at, w.created_at, w.updated_at, v.input
  from windlass.workflow w
  join windlass.version v on v.workflow_id = w.id and v.number = coalesce($3::int, w.live)
 where w.org = $1 and w.name = $2 and w.deleted_at is null

-- name: list
-- scope: org
-- List at most $3 workflows by name, after name $2.
select w.name, w.id, v.id as version_id, w.live, w.enabled, v.document -> 'trigger' as trigger,
       v.document ->> 'description' as description, jsonb_array_length(v.document -> 'tasks') as steps,
       w.created_at, w.updated_at
  from windlass.workflow w
  join windlass.version v on v.workflow_id = w.id and v.number = w.live
 where w.org = $1 and w.name > $2 and w.deleted_at is null and not w.hidden
 order by w.name limit $3

-- name: names
-- scope: org
-- Return workflow names, for suggestions.
select name from windlass.workflow where org = $1 and deleted_at is null and not hidden order by name limit $2

-- name: exists
-- scope: org
-- Return whether a workflow with this id exists or existed. The runs of a deleted workflow can still be listed by its id.
select exists (select from windlass.workflow where org = $1 and id = $2 and not hidden)

-- name: name_of
-- scope: org
-- Return the name of the workflow with this id.
select name from windlass.workflow where org = $1 and id = $2 and deleted_at is null

-- name: versions
-- scope: org
-- List at most $4 versions of a workflow, newest first, below number $3.
select v.id, v.number, v.number = w.live as live, v.fingerprint, jsonb_array_length(v.document -> 'tasks') as steps, v.created_at
  from windlass.workflow w
  join windlass.version v on v.workflow_id = w.id
 where w.org = $1 and w.name = $2 and w.deleted_at is null and v.number < $3
 order by v.number desc limit $4

-- name: enable
-- scope: org
-- Enable or disable a workflow. A disabled workflow refuses new runs.
update windlass.workflow set enabled = $3, updated_at = case when enabled = $3 then updated_at else windlass.now() end
 where org = $1 and name = $2 and deleted_at is null returning id

-- name: soft_delete
-- scope: org
-- Mark a workflow as deleted and free its name. Live runs finish on their version, and no new runs start.
with gone as (
  update windlass.workflow set deleted_at = windlass.now(), updated_at = windlass.now(), token_hash = null
   where org = $1 and name = $2 and deleted_at is null returning id),
silent as (delete from windlass.schedule where workflow_id = any(array(select id from gone)))
select id from gone

-- name: drop_steps
-- scope: owned
-- Delete what a run has stored for steps that do not exist in the version it continues with. These steps did not
-- succeed.
with jobs as (delete from only workflow.workflow_run where run_id = $1 and step = any($2) returning id),
logs as (delete from windlass.job_log where job_id = any(array(select id from jobs))),
streamed as (delete from windlass.stream_chunk where job_id = any(array(select id from jobs))),
saved as (delete from windlass.checkpoint where job_id = any(array(select id from jobs))),
said as (delete from windlass.progress where job_id = any(array(select id from jobs))),
files as (update windlass.artifact set remove_at = windlass.now() where job_id = any(array(select id from jobs))),
items as (delete from windlass.item where run_id = $1 and step = any($2)),
hooks as (delete from windlass.hook where run_id = $1 and step = any($2)),
waits as (delete from windlass.waiter where job_id = any(array(select id from jobs)) or run_id = $1 and step = any($2)),
below as (update only windlass.run set parent_step = -1 - parent_step where parent_id = $1 and parent_step = any($2))
delete from windlass.event where run_id = $1 and step = any($2)

-- name: shift_steps
-- scope: owned
-- Change the step numbers of a run's rows from $2 to those of another version ($3), plus an offset above all numbers in
-- use, because a unique index is checked row by row: `settle_steps` subtracts the offset. The address of a callback
-- depends on the number of its step: an unused hook whose step gets another number is deleted, to be created anew.
with map as (select * from unnest($2::int[], $3::int[]) as m(old, new)),
jobs as (
  update only workflow.workflow_run j set step = map.new + 1000000, version_id = $4 from map where j.run_id = $1 and j.step = map.old),
items as (update windlass.item i set step = map.new + 1000000 from map where i.run_id = $1 and i.step = map.old),
unused as (
  delete from windlass.hook h using map
   where h.run_id = $1 and h.step = map.old and map.new <> map.old and h.received_at is null),
hooks as (
  update windlass.hook h set step = map.new + 1000000 from map
   where h.run_id = $1 and h.step = map.old and (map.new = map.old or h.received_at is not null)),
waits as (update windlass.waiter w set step = map.new + 1000000 from map where w.run_id = $1 and w.step = map.old),
below as (update only windlass.run r set parent_step = map.new + 1000000 from map where r.parent_id = $1 and r.parent_step = map.old),
trail as (update windlass.event e set step = map.new from map where e.run_id = $1 and e.step = map.old)
update only windlass.run set version_id = $4 where id = $1

-- name: settle_steps
-- scope: owned
-- Subtract the offset that `shift_steps` added.
with jobs as (update only workflow.workflow_run set step = step - 1000000 where run_id = $1 and step >= 1000000),
items as (update windlass.item set step = step - 1000000 where run_id = $1 and step >= 1000000),
hooks as (update windlass.hook set step = step - 1000000 where run_id = $1 and step >= 1000000),
waits as (update windlass.waiter set step = step - 1000000 where run_id = $1 and step >= 1000000)
update only windlass.run set parent_step = parent_step - 1000000 where parent_id = $1 and parent_step >= 1000000
