-- Compositions: chains, groups, batches and graphs of jobs. Each is a run. Here are the queries that only compositions need.

-- name: publish
-- scope: org
-- Insert hidden workflows for composition shapes that do not exist yet. Equal shapes have the same name.
with requested as (
  select * from unnest($1::uuid[], $2::text[], $3::jsonb[], $4::text[]) as a(id, name, document, fingerprint)),
born as (
  insert into windlass.workflow (id, org, name, live, hidden)
  select id, $5, name, 1, true from requested order by name
  on conflict (org, name) where deleted_at is null do nothing returning id, name)
insert into windlass.version (workflow_id, number, document, fingerprint)
select b.id, 1, a.document, a.fingerprint from born b join requested a on a.name = b.name

-- name: insert
-- scope: org
-- Insert compositions, the outermost with all nested ones. Returns the inserted ids: those already taken are left out.
insert into windlass.composition (run_id, root_id, parent_id, parent_step, org, kind, name, alias, version_id, jobs, labels, steps, retry_of)
select run_id, $1, parent_id, parent_step, $2, kind, name, alias, version_id, jobs, labels, steps, retry_of
  from unnest($3::uuid[], $4::uuid[], $5::int[], $6::text[], $7::text[], $8::text[], $9::int[], $10::int[], $11::jsonb[], $12::text[],
              $13::uuid[])
    as a(run_id, parent_id, parent_step, kind, name, alias, version_id, jobs, labels, steps, retry_of)
on conflict do nothing returning run_id

-- name: reserve
-- scope: owned
-- Reserve the job ids that clients chose, including those of jobs that start later. Returns the reserved ids: those already taken
-- are left out.
insert into windlass.reserved_id (id, run_id)
select id, run_id from unnest($1::uuid[], $2::uuid[]) as a(id, run_id)
 where (select j.id from workflow.workflow_run j where j.id = a.id) is null order by id
on conflict do nothing returning id

-- name: reserve_keys
-- scope: org, in the key
-- Reserve the unique keys of the jobs of a composition when it is created, because its jobs may start much later.
insert into windlass.reserved_key (key, run_id, step) select * from unnest($1::text[], $2::uuid[], $3::int[])

-- name: keys
-- scope: owned
-- Return the unique keys of these steps, with the new compositions that repeat them.
select k.key, m.new_id, k.step from unnest($1::uuid[], $2::uuid[], $3::int[]) as m(old_id, new_id, step)
  join windlass.reserved_key k on k.run_id = m.old_id and k.step = m.step order by k.key

-- name: enqueue
-- scope: owned
-- Insert the jobs of composition steps with their `created` events. The attributes of each job come from its part of the input of
-- the run. The input of a run is read once, however many parts are needed: hence the arrays instead of a many-to-many join. A job
-- id that is already taken is replaced by the generated one. That check is a scalar subquery, because the planner may answer an
-- `exists` by reading the whole inbox. A job of an earlier round is reset to pending.
-- moves: failed -> pending; cancelled -> pending; succeeded -> pending
with requested as (
  select run_id, array_agg(id order by place) as ids, array_agg(org order by place) as orgs,
         array_agg(version_id order by place) as versions, array_agg(step order by place) as steps,
         array_agg(round order by place) as rounds, array_agg(first order by place) as firsts, array_agg(count order by place) as counts,
         array_agg(type order by place) as types, array_agg(queue order by place) as queues, array_agg(items order by place) as many
    from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::int[], $6::int[], $7::int[], $8::int[], $9::text[], $10::text[], $11::int[])
         with ordinality as a(id, run_id, org, version_id, step, round, first, count, type, queue, items, place)
   group by run_id),
run as materialized (select requested.*, r.input -> 'parts' as parts from requested join windlass.run r on r.id = requested.run_id),
born as (
  insert into workflow.workflow_run (id, type, payload, queue, priority, max_attempts, timeout, retry, tags, meta, envelope, expires_at,
                                     unique_key, visibility, rate_key, org, run_id, version_id, step, item, items, epoch, settled,
                                     run_at, created_at, updated_at, needs_created_event)
  select case when a.count > 1 or n > 0 then windlass.new_id() when p.id is null then a.id
              when (select j.id from workflow.workflow_run j where j.id = p.id) is null then p.id else a.id end,
         a.type,
         case when a.items is null then coalesce(p.payload, '[]')
              else coalesce(p.payload, '[]') || jsonb_build_array((
                select value from windlass.item i where i.run_id = run.run_id and i.step = a.step and i.item = n)) end,
         windlass.stored_queue(a.org, a.queue), coalesce(p.priority, 100), coalesce(p.max_attempts, 3), make_interval(secs => p.timeout), p.retry,
         case when p.tags is null then null else array(select jsonb_array_elements_text(p.tags)) end,
         p.meta, p.envelope, coalesce(p.expires_at, (select windlass.now()) + make_interval(secs => p.lifetime)), p.unique_key, make_interval(secs => p.visibility), p.rate_key,
         a.org, run.run_id, a.version_id, a.step, n, a.items, a.round, false,
         coalesce(p.run_at, (select windlass.now()) + make_interval(secs => coalesce(p.delay, 0))),
         (select windlass.now()), (select windlass.now()), false
    from run
   cross join lateral unnest(run.ids, run.orgs, run.versions, run.steps, run.rounds, run.firsts, run.counts, run.types, run.queues, run.many)
         with ordinality as a(id, org, version_id, step, round, first, count, type, queue, items, place)
   cross join lateral jsonb_to_record(run.parts -> a.step) as p(
     id uuid, payload jsonb, priority int, max_attempts int, timeout double precision, retry jsonb, tags jsonb, meta jsonb,
     envelope jsonb, expires_at timestamptz, unique_key text, visibility double precision, rate_key text, run_at timestamptz,
     delay double precision, lifetime double precision)
   cross join lateral generate_series(a.first, a.first + a.count - 1) as n
   order by run.run_id, a.place, n
  on conflict (run_id, step, item) where run_id is not null do update
     set status = 'pending', epoch = excluded.epoch, attempt = 0, lost = 0, alone = false, run_at = excluded.run_at, due = true,
         seq = excluded.seq, result = null, last_error = null, payload = excluded.payload, items = excluded.items,
         settled = false, cancel_requested = false, deleted_at = null, updated_at = excluded.updated_at
   where workflow.workflow_run.epoch < excluded.epoch
  returning id)
insert into workflow.workflow_event (workflow_id, event_type, actor, created_at)
select id, 'created', $12, (select windlass.now()) from born

-- name: copy_runs
-- scope: owned
-- Copy the completed runs of compositions for a retry. The copies are not executed again.
insert into windlass.run (id, org, workflow_id, version_id, state, steps, fans, input, labels, parent_id, parent_step, parent_item,
                          parent_round, depth, created_at, started_at, finished_at, expires_at)
select m.new_id, r.org, r.workflow_id, r.version_id, r.state, r.steps, r.fans, r.input, r.labels - 'workflow_id', m.parent_id, r.parent_step,
       r.parent_item, 0, r.depth, windlass.now(), windlass.now(), windlass.now(), windlass.now() + (r.expires_at - r.created_at)
  from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as m(old_id, new_id, parent_id) join windlass.run r on r.id = m.old_id

-- name: copy_jobs
-- scope: owned
-- Copy the succeeded jobs of these steps for a retry, so that they are not executed again.
insert into workflow.workflow_run (id, type, payload, status, priority, run_at, attempt, lost, max_attempts, result, queue, org, timeout,
                                   retry, tags, meta, envelope, run_id, version_id, step, item, items, created_at, updated_at, needs_created_event)
select windlass.new_id(), j.type, j.payload, j.status, j.priority, j.run_at, j.attempt, j.lost, j.max_attempts, j.result, j.queue, j.org,
       j.timeout, j.retry, j.tags, j.meta, j.envelope - 'alias', m.new_id, j.version_id, j.step, j.item, j.items, windlass.now(), windlass.now(), false
  from unnest($1::uuid[], $2::uuid[], $3::int[]) as m(old_id, new_id, step)
  join workflow.workflow_run j on j.run_id = m.old_id and j.step = m.step and j.status = 'succeeded'

-- name: find
-- scope: org
-- Return the composition with this id, either its run id or the alias that the client chose.
select run_id, root_id from windlass.composition where org = $1 and (run_id = $2 or alias = $3)

-- name: tree
-- scope: owned
-- Return all compositions of the tree with this root, and the states of their runs. One that has not started may have no run.
select c.run_id, c.parent_id, c.parent_step, c.kind, c.name, c.alias, c.version_id, c.jobs, c.labels,
       coalesce(before.alias, c.retry_of::text) as retry_of, c.created_at, c.started_at, r.state, r.steps, r.fans,
       r.finished_at, c.steps as brought
  from windlass.composition c
  left join windlass.run r on r.id = c.run_id
  left join windlass.composition before on before.run_id = c.retry_of
 where c.root_id = $1

-- name: list
-- scope: org
-- List the outermost compositions, newest first, with their total number (counted up to 10,000). The count is the left side of
-- the join and always returns a row, so a page beyond the end has it too.
select counted.total, page.*
  from (select count(*) as total from (
          select from windlass.composition
           where org = $1 and parent_id is null and ($2::text is null or name = $2) limit 10000) as few) as counted
  left join lateral (
    select c.run_id, c.kind, c.name, c.alias, c.jobs, coalesce(before.alias, c.retry_of::text) as retry_of, c.created_at,
           c.started_at, r.state, r.finished_at
      from windlass.composition c
      join windlass.run r on r.id = c.run_id
      left join windlass.composition before on before.run_id = c.retry_of
     where c.org = $1 and c.parent_id is null and ($2::text is null or c.name = $2)
     order by c.created_at desc, c.run_id desc limit $3 offset $4) as page on true

-- name: jobs
-- scope: owned
-- Return the jobs of run $1 (of a fanned-out step the first and those that failed or were cancelled), and up to $3 jobs of the
-- runs $2 nested in it, failed and cancelled ones first. Results of nested jobs are returned until they add up to more than $4
-- bytes.
with own as (
  select j.id, j.run_id, j.step, j.item, j.status, j.result, false as is_cut from workflow.workflow_run j
   where j.run_id = $1 and (j.item = 0 or j.status in ('failed', 'cancelled'))),
few as materialized (
  select j.id, j.run_id, j.step, j.item, j.status, j.result from workflow.workflow_run j
   where j.run_id = any($2) and (j.item = 0 or j.status in ('failed', 'cancelled'))
   order by j.status in ('failed', 'cancelled') desc, j.run_id, j.step, j.item limit $3),
inside as (
  select *, sum(coalesce(pg_column_size(result), 0)) over (order by run_id, step, item) > $4 as is_full from few),
every as (
  select * from own
  union all
  select id, run_id, step, item, status, case when not is_full then result end, is_full and result is not null from inside)
select j.id, j.run_id, j.step, j.item, j.status, every.result, j.last_error, j.errors -> -1 as error, j.attempt + j.lost as attempts,
       j.created_at, j.updated_at, coalesce(j.envelope ->> 'alias', j.id::text) as client_id,
       (select max(e.created_at) from workflow.workflow_event e where e.workflow_id = j.id and e.event_type = 'leased') as started_at,
       every.is_cut
  from every join workflow.workflow_run j on j.id = every.id
 order by j.run_id, j.step, j.item

-- name: start
-- scope: global
-- Record that these compositions and all that contain them have started: the first job of them, or of one nested in
-- them, was handed out. Writes the event once for each.
with recursive above as (
  select run_id, parent_id, started_at from windlass.composition where run_id = any($1)
  union
  select c.run_id, c.parent_id, c.started_at from above join windlass.composition c on c.run_id = above.parent_id),
fresh as (
  select c.run_id from windlass.composition c
   where c.run_id = any(array(select run_id from above where started_at is null)) and c.started_at is null
   order by c.run_id for update),
begun as (
  update windlass.composition c set started_at = windlass.now() from fresh where c.run_id = fresh.run_id returning c.run_id, c.root_id)
insert into windlass.event (run_id, word, actor)
select run_id, 'started', $2 from begun order by run_id <> root_id, run_id

-- name: above
-- scope: owned
-- Return these compositions and all that contain them.
with recursive above as (
  select run_id, parent_id, parent_step, kind, alias, version_id from windlass.composition where run_id = any($1)
  union
  select c.run_id, c.parent_id, c.parent_step, c.kind, c.alias, c.version_id
    from above join windlass.composition c on c.run_id = above.parent_id)
select run_id, parent_id, parent_step, kind, alias, version_id from above

-- name: neighbors
-- scope: owned
-- Return the compositions directly inside or around these that have work to do: those inside that are pending, and any that have
-- notices.
select c.run_id from windlass.composition c join windlass.run r on r.id = c.run_id
 where c.parent_id = any($1) and (r.state = 'pending' or exists (select from windlass.notice n where n.run_id = c.run_id))
union
select c.parent_id from windlass.composition c
 where c.run_id = any($1) and exists (select from windlass.notice n where n.run_id = c.parent_id)

-- name: below
-- scope: owned
-- Return the compositions at these steps.
select c.parent_id, c.parent_step, c.run_id, c.version_id, r.steps
  from unnest($1::uuid[], $2::int[]) as w(run_id, step)
  join windlass.composition c on c.parent_id = w.run_id and c.parent_step = w.step
  join windlass.run r on r.id = c.run_id

-- name: results
-- scope: owned
-- Return the outcomes of the jobs at these steps. Results are limited to about $3 bytes per run, the last steps first, and about
-- $4 bytes in total.
select run_id, step, item, items, status, result, error, last_error, attempts, omitted
  from windlass.part_results($1::uuid[], $2::int[], $3, $4) order by run_id, step, item

-- name: summaries
-- scope: owned
-- Return kind, name and displayed id of these compositions, and the displayed id of the composition that contains each.
select c.run_id, c.kind, c.name, coalesce(c.alias, c.run_id::text) as client_id, coalesce(parent.alias, c.parent_id::text) as parent_id
  from windlass.composition c left join windlass.composition parent on parent.run_id = c.parent_id where c.run_id = any($1)

-- name: step_jobs
-- scope: owned
-- Return the jobs at these steps (the first of a fanned-out step), when they were last handed out, and their last error.
select w.run_id, w.step, coalesce(j.envelope ->> 'alias', j.id::text) as client_id, j.errors -> -1 as error,
       (select max(e.created_at) from workflow.workflow_event e where e.workflow_id = j.id and e.event_type = 'leased') as started_at
  from unnest($1::uuid[], $2::int[]) as w(run_id, step)
  join workflow.workflow_run j on j.run_id = w.run_id and j.step = w.step and j.item = 0

-- name: nested
-- scope: owned
-- Return the compositions at these steps, when they started, and the first failed job of each, including nested compositions.
with recursive place as (
  select c.run_id as top, c.run_id from unnest($1::uuid[], $2::int[]) as w(run_id, step)
    join windlass.composition c on c.parent_id = w.run_id and c.parent_step = w.step),
inside as (
  select top, run_id from place
  union all
  select inside.top, c.run_id from inside join windlass.composition c on c.parent_id = inside.run_id)
select c.parent_id, c.parent_step, coalesce(c.alias, c.run_id::text) as client_id, c.kind, c.started_at, bad.client_id as job, bad.error
  from place
  join windlass.composition c on c.run_id = place.run_id
  left join lateral (
    select coalesce(j.envelope ->> 'alias', j.id::text) as client_id, j.errors -> -1 as error
      from inside join workflow.workflow_run j on j.run_id = inside.run_id
     where inside.top = place.run_id and j.status = 'failed' order by j.updated_at, j.seq limit 1) as bad on true
