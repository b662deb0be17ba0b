-- The schemas of handlers, and which workers serve them.

-- name: publish
-- scope: owned
-- Record the types $2 with the digests $3 and the schemas $4 of worker $1, whose code has version $5. Rows are locked
-- in the order of their keys, because workers may start concurrently.
with served as (
  select * from unnest($2::text[], $3::text[], $4::text[]) as served (type, digest, schema)),
recorded as (
  insert into windlass.job_type (org, type, digest, schema, version)
  select w.org, served.type, served.digest, served.schema::json, $5
    from windlass.worker w cross join served where w.id = $1 order by served.type, served.digest
  on conflict (org, type, digest) do update set last_seen_at = windlass.now(), version = coalesce(excluded.version, job_type.version))
update windlass.worker set digests = (select coalesce(jsonb_object_agg(type, digest), '{}') from served) where id = $1

-- name: live
-- scope: global
-- Return the types that live workers serve, and the digests of their schemas.
select distinct w.org, served.key as type, served.value as digest
  from windlass.worker w cross join lateral jsonb_each_text(w.digests) as served
 where w.digests is not null and w.state <> 'stopped' and w.seen_at > windlass.now() - $1::interval
 order by 1, 2, 3

-- name: schemas
-- scope: global
-- Return the schemas with these digests.
select distinct on (digest) digest, schema from windlass.job_type where digest = any($1::text[]) order by digest, org, type

-- name: list
-- scope: org
-- List the types of org $1 and those that all orgs share, after type $2, at most $3 of them, or only type $4: one row per digest,
-- those of live workers first, then the latest. The cost grows with the number of workers and types.
with page as (
  select distinct type from windlass.job_type
   where (org = $1 or org = 'default') and type > $2 and ($4::text is null or type = $4) order by type limit $3),
served as (
  select w.org, served.key as type, served.value as digest, array_agg(w.id order by w.id) as workers, max(w.seen_at) as seen_at
    from windlass.worker w cross join lateral jsonb_each_text(w.digests) as served
   where (w.org = $1 or w.org = 'default') and w.state <> 'stopped' and w.seen_at > windlass.now() - $5::interval
   group by w.org, served.key, served.value)
select t.type, t.digest, t.schema, t.version, t.first_seen_at, greatest(t.last_seen_at, s.seen_at) as last_seen_at,
       coalesce(s.workers, '{}') as workers
  from windlass.job_type t join page on page.type = t.type
  left join served s on s.org = t.org and s.type = t.type and s.digest = t.digest
 where (t.org = $1 or t.org = 'default')
 order by t.type, s.workers is null, greatest(t.last_seen_at, s.seen_at) desc, t.first_seen_at desc, t.digest

-- name: drifting
-- scope: global
-- Return the types of which live workers serve several digests, with the workers of each.
select type, array_agg(digest order by digest) as digests, array_agg(workers order by digest) as workers from (
  select w.org, served.key as type, served.value as digest, string_agg(w.id, ', ' order by w.id) as workers
    from windlass.worker w cross join lateral jsonb_each_text(w.digests) as served
   where w.state <> 'stopped' and w.seen_at > windlass.now() - $1::interval
   group by w.org, served.key, served.value) as served
 group by org, type having count(*) > 1 order by org, type

-- name: touch
-- scope: global
-- Record when each schema was last served, before the rows of its workers are deleted; at most once an hour for a
-- schema.
update windlass.job_type t set last_seen_at = s.seen_at
  from (select w.org, served.key as type, served.value as digest, max(w.seen_at) as seen_at
          from windlass.worker w cross join lateral jsonb_each_text(w.digests) as served
         group by w.org, served.key, served.value) as s
 where t.org = s.org and t.type = s.type and t.digest = s.digest and t.last_seen_at < s.seen_at - interval '1 hour'

-- name: trim
-- scope: global
-- Remove the oldest schemas: beyond the latest $1 of a type, and beyond the latest $2 of an org.
delete from windlass.job_type t using (
  select org, type, digest, row_number() over (partition by org, type order by last_seen_at desc, digest) as of_type,
         row_number() over (partition by org order by last_seen_at desc, type, digest) as of_org
    from windlass.job_type) as ranked
 where t.org = ranked.org and t.type = ranked.type and t.digest = ranked.digest and (ranked.of_type > $1 or ranked.of_org > $2)
