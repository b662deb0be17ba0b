-- The audit log: who did what to which object. Rows are only inserted.

-- name: insert
-- scope: org
-- Record an action, in the transaction of the action.
insert into windlass.audit (org, actor, action, object, data) values ($1, $2, $3, $4, $5::jsonb)

-- name: list
-- scope: org
-- List the actions of an org, newest first, $7 at a time, before a position, filtered by actor, action prefix and object.
select id, at, org, actor, action, object, data from windlass.audit
 where org = $1 and ($2::text is null or actor = $2) and ($3::text is null or starts_with(action, $3)) and ($4::text is null or object = $4)
   and ($5::timestamptz is null or (at, id) < ($5, $6))
 order by at desc, id desc limit $7
