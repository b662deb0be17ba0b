-- May run before the new code: yes (a function).
-- The search for lanes with due jobs: each lane once, with the lowest `seq` in it, by a loose scan of the claim index. A type that is
-- neither in `wanted` nor matches a pattern is skipped after its first lane. Without patterns the scan continues at the next type of
-- `wanted`, so that types which the worker does not serve cost almost nothing.
-- It is a function because it must walk through that index whatever the statistics say. With statistics of a moment when few jobs
-- were pending, the planner read all pending jobs by another index, and sorted them, for every lane: with 1,000 lanes and ten
-- workers a search took 25 s, and hardly a job was claimed until the next `analyze`. Without sorts there is one index left.
create function windlass.find_lanes(
  queues text[], types text[], priorities int[], alones boolean[], wanted text[], patterns text[], most int)
returns table (queue text, type text, priority int, seq bigint, alone boolean)
language plpgsql stable set enable_sort = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  return query
  with recursive start as (
    select q.queue, coalesce(q.type, '') as type, coalesce(q.priority, -2147483648) as priority, coalesce(q.alone, false) as alone
      from unnest(queues, types, priorities, alones) as q(queue, type, priority, alone)
     where q.queue <> all(array(select name from windlass.queue where paused))),
  lane as (
    (select head.*, wanted is null or head.type = any(wanted) or head.type like any(patterns) as served
       from start cross join lateral (
         select j.queue, j.type, j.priority, j.seq, j.alone from only workflow.workflow_run j
          where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = start.queue
            and (j.type, j.priority, j.alone) > (start.type, start.priority, start.alone)
          order by j.queue, j.type, j.priority, j.alone, j.seq limit 1) as head)
    union all
    select next.*, wanted is null or next.type = any(wanted) or next.type like any(patterns)
      from lane cross join lateral (
        select case when lane.served then lane.type
                    when patterns = '{}' then (select min(t.type) from unnest(wanted) as t(type) where t.type > lane.type)
                    else lane.type end as type,
               case when lane.served then lane.priority when patterns = '{}' then -2147483648 else 2147483647 end as priority,
               lane.served and lane.alone or not lane.served and patterns <> '{}' as alone) as past
      cross join lateral (
        select j.queue, j.type, j.priority, j.seq, j.alone from only workflow.workflow_run j
         where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue
           and (j.type, j.priority, j.alone) > (past.type, past.priority, past.alone)
         order by j.queue, j.type, j.priority, j.alone, j.seq limit 1) as next)
  select queue, type, priority, seq, alone from lane limit most;
end $$;
