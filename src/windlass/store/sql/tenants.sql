-- The label `meta.tenant_id` of jobs.

-- name: list
-- scope: org
-- List the distinct tenant ids by a loose index scan.
with recursive label as (
  (select meta ->> 'tenant_id' as name from workflow.workflow_run
    where meta ->> 'tenant_id' is not null and org = $1 order by meta ->> 'tenant_id' limit 1)
  union all
  select next.name from label cross join lateral (
    select j.meta ->> 'tenant_id' as name from workflow.workflow_run j
     where j.meta ->> 'tenant_id' is not null and j.meta ->> 'tenant_id' > label.name and j.org = $1
     order by j.meta ->> 'tenant_id' limit 1) as next)
select name from label limit $2

-- name: counts
-- scope: org
-- Count the jobs of a tenant by state. Reads at most $3 of them.
select status, count(*) from (
  select status from workflow.workflow_run
   where meta ->> 'tenant_id' is not null and meta ->> 'tenant_id' = $2 and org = $1 and deleted_at is null limit $3) as looked_at
 group by status
