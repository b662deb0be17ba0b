-- Streams of handlers: the chunks that they passed to `ctx.stream`.

-- name: append
-- scope: global
-- Append chunks of attempts that still hold their jobs; chunks of other attempts are dropped. The share lock makes the
-- next claim of a job wait for this transaction, so chunks become visible in the order of their positions. A chunk that
-- is sent twice is stored once.
with held as (
  select id, claim_no from only workflow.workflow_run
   where id = any($1) and leased_by is not null order by id for share)
insert into windlass.stream_chunk (job_id, section, number, attempt, at, data)
select c.job_id, c.section, c.number, c.attempt, c.at, c.data
  from unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::timestamptz[], $6::jsonb[])
         as c(job_id, section, number, attempt, at, data)
  join held on held.id = c.job_id and held.claim_no = c.section
on conflict do nothing

-- name: read
-- scope: owned
-- Return for each of these streams up to $4 chunks after a position, and the status of its job, from one snapshot: if
-- the job has ended in it, all chunks are visible in it. A stream without new chunks returns one row.
select w.n::int, j.status, c.section, c.number, c.attempt, c.at, c.data
  from unnest($1::uuid[], $2::int[], $3::int[]) with ordinality as w(job_id, section, number, n)
  left join workflow.workflow_run j on j.id = w.job_id and j.deleted_at is null
  left join lateral (
    select s.section, s.number, s.attempt, s.at, s.data from windlass.stream_chunk s
     where s.job_id = w.job_id and (s.section, s.number) > (w.section, w.number)
     order by s.section, s.number limit $4) as c on true
 order by w.n, c.section, c.number
