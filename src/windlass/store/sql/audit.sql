-- The audit log: who did what to which object. Rows are only inserted.

-- name: insert
-- scope: org
-- Record an action on each of these objects, in the transaction of the action.
insert into windlass.audit (org, actor, action, object, data)
select $1, $2, $3, e.object, e.data::jsonb
  from unnest($4::text[], $5::text[]) with ordinality as e(object, data, n) order by e.n

-- name: make_partition
-- scope: global
-- Create the partition of a month, where 0 is the current one. Returns its name, or null if it already existed.
select windlass.make_audit_partition(windlass.now() + $1 * interval '1 month')

-- name: old_partitions
-- scope: global
-- Return the monthly partitions whose entries are all older than the cutoff.
select child.relname from pg_inherits
  join pg_class child on child.oid = inhrelid
 where inhparent = 'windlass.audit'::regclass and child.relname ~ '^audit_[0-9]{6}$'
   and (to_date(right(child.relname, 6), 'YYYYMM') + interval '1 month') at time zone 'UTC' <= windlass.now() - $1::interval
 order by child.relname

-- name: list
-- scope: org
-- List at most $7 actions of an org, newest first, before a position, filtered by actor, action prefix and object.
select id, at, org, actor, action, object, data from windlass.audit
 where org = $1 and ($2::text is null or actor = $2) and ($3::text is null or starts_with(action, $3)) and ($4::text is null or object = $4)
   and ($5::timestamptz is null or (at, id) < ($5, $6))
 order by at desc, id desc limit $7
