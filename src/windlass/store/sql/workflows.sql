-- Workflows and their versions. A published version never changes; runs pin theirs. Rows of workflows are locked in the
-- order of their names.

-- name: hold
-- Take these names for publishing: the rows that have them, or new ones without a version, are locked either way.
insert into windlass.workflow (id, org, name, live)
select id, $3, name, 0 from unnest($1::uuid[], $2::text[]) as asked(id, name) order by name
on conflict (org, name) where deleted_at is null do update set live = workflow.live

-- name: publish
-- Make the next versions and let them be live; what equals the live version makes none. Only under `hold`.
-- The lateral limit keeps the plan on one probe a name.
with asked as (
  select w.id, w.live, a.document, a.fingerprint
    from unnest($2::text[], $3::jsonb[], $4::text[]) as a(name, document, fingerprint)
   cross join lateral (
     select w.id, w.live from windlass.workflow w where w.org = $1 and w.name = a.name and w.deleted_at is null limit 1) as w),
born as (
  insert into windlass.version (workflow_id, number, document, fingerprint)
  select a.id, coalesce((select max(v.number) from windlass.version v where v.workflow_id = a.id), 0) + 1, a.document, a.fingerprint
    from asked a
   where not exists (select from windlass.version v
                      where v.workflow_id = a.id and v.number = a.live and v.fingerprint = a.fingerprint)
  returning id, workflow_id, number),
moved as (
  update windlass.workflow w set live = born.number, updated_at = windlass.now() from born where w.id = born.workflow_id)
select id from born

-- name: live
-- The live versions of these names, and what time it is: who starts a run wants to know both.
select w.name, w.id as workflow_id, v.id as version_id, v.number, w.enabled, v.fingerprint, windlass.now() as now
  from windlass.workflow w
  join windlass.version v on v.workflow_id = w.id and v.number = w.live
 where w.org = $1 and w.name = any($2) and w.deleted_at is null

-- name: documents
-- What these versions say, whoever published them. A hidden one is the shape of compositions, whose name begins with their kind.
select v.id, case when w.hidden then v.document || jsonb_build_object('primitive', split_part(w.name, '-', 1)) else v.document end as document
  from windlass.version v join windlass.workflow w on w.id = v.workflow_id where v.id = any($1)

-- name: get
-- One workflow with a version of it: number $3, or the live one.
select w.name, w.id, v.id as version_id, v.number, w.live, w.enabled, v.document, v.fingerprint,
       v.created_at as published_at, w.created_at, w.updated_at
  from windlass.workflow w
  join windlass.version v on v.workflow_id = w.id and v.number = coalesce($3::int, w.live)
 where w.org = $1 and w.name = $2 and w.deleted_at is null

-- name: list
-- Workflows by name, $3 at a time, after name $2.
select w.name, w.id, v.id as version_id, w.live, w.enabled, v.document -> 'trigger' as trigger,
       v.document ->> 'description' as description, jsonb_array_length(v.document -> 'tasks') as steps,
       w.created_at, w.updated_at
  from windlass.workflow w
  join windlass.version v on v.workflow_id = w.id and v.number = w.live
 where w.org = $1 and w.name > $2 and w.deleted_at is null and not w.hidden
 order by w.name limit $3

-- name: names
-- The names there are, for suggestions.
select name from windlass.workflow where org = $1 and deleted_at is null and not hidden order by name limit $2

-- name: exists
-- Was there ever a workflow with this id? The runs of a deleted one can still be listed by it.
select exists (select from windlass.workflow where org = $1 and id = $2 and not hidden)

-- name: name_of
-- Who has this id?
select name from windlass.workflow where org = $1 and id = $2 and deleted_at is null

-- name: versions
-- The versions of a workflow, newest first, $4 at a time, below number $3.
select v.id, v.number, v.number = w.live as live, v.fingerprint, jsonb_array_length(v.document -> 'tasks') as steps, v.created_at
  from windlass.workflow w
  join windlass.version v on v.workflow_id = w.id
 where w.org = $1 and w.name = $2 and w.deleted_at is null and v.number < $3
 order by v.number desc limit $4

-- name: enable
-- Switch a workflow on or off: off, new runs are refused.
update windlass.workflow set enabled = $3, updated_at = case when enabled = $3 then updated_at else windlass.now() end
 where org = $1 and name = $2 and deleted_at is null returning id

-- name: soft_delete
-- Free the name; live runs finish on their version, nothing starts new ones.
with gone as (
  update windlass.workflow set deleted_at = windlass.now(), updated_at = windlass.now(), token_hash = null
   where org = $1 and name = $2 and deleted_at is null returning id),
silent as (delete from windlass.schedule where workflow_id = any(array(select id from gone)))
select id from gone
