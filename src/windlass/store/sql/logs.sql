-- Log lines of the step jobs of a run, for readers that need more than one page. Read-only.

-- name: tail
-- Return the last lines in the order of time, newest first.
select l.xid::text as xid, j.step, j.item, j.items is not null as fanned_out, l.job_id, l.attempt, l.line, l.at, l.level, l.message
  from workflow.workflow_run j join windlass.job_log l on l.job_id = j.id
 where j.run_id = $1 and ($2::int is null or j.step = $2) and ($3::int is null or j.item = $3) and ($4::int is null or l.attempt = $4)
 order by l.at desc, l.job_id desc, l.epoch desc, l.attempt desc, l.line desc limit $5

-- name: whole
-- Return all lines by step and instance, in pages. Each page starts at the end of the previous one, so that the total cost stays
-- linear.
select l.xid::text as xid, j.step, j.item, j.items is not null as fanned_out, l.job_id, l.attempt, l.line, l.at, l.level, l.message, l.epoch
  from workflow.workflow_run j join windlass.job_log l on l.job_id = j.id
 where j.run_id = $1 and ($2::int is null or j.step = $2) and ($3::int is null or j.item = $3) and ($4::int is null or l.attempt = $4)
   and (j.step, j.item) >= ($5, $6) and (j.step, j.item, l.epoch, l.attempt, l.line) > ($5, $6, $7, $8, $9)
 order by j.step, j.item, l.epoch, l.attempt, l.line limit $10

-- name: since
-- Return the lines that were not visible in a snapshot ($5 and $6 are its xmax and the transactions that were in progress).
select l.xid::text as xid, j.step, j.item, j.items is not null as fanned_out, l.job_id, l.attempt, l.line, l.at, l.level, l.message
  from workflow.workflow_run j join windlass.job_log l on l.job_id = j.id
 where j.run_id = $1 and ($2::int is null or j.step = $2) and ($3::int is null or j.item = $3) and ($4::int is null or l.attempt = $4)
   and (l.xid >= $5::text::xid8 or l.xid = any($6::text[]::xid8[]))
 order by l.at, l.job_id, l.epoch, l.attempt, l.line

-- name: since_of_jobs
-- Return the same lines, but only of these jobs.
select l.xid::text as xid, j.step, j.item, j.items is not null as fanned_out, l.job_id, l.attempt, l.line, l.at, l.level, l.message
  from unnest($7::uuid[]) as w(id) join workflow.workflow_run j on j.id = w.id join windlass.job_log l on l.job_id = j.id
 where j.run_id = $1 and ($2::int is null or j.step = $2) and ($3::int is null or j.item = $3) and ($4::int is null or l.attempt = $4)
   and (l.xid >= $5::text::xid8 or l.xid = any($6::text[]::xid8[]))
 order by l.at, l.job_id, l.epoch, l.attempt, l.line

-- name: held
-- Return the leased jobs of a run.
select id from workflow.workflow_run where run_id = $1 and status = 'leased' and ($2::int is null or step = $2)
