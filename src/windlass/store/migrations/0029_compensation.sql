-- May run before the new code: yes (older code leaves no notice with the new words, and does not read the new view column).
-- Compensation: a run that failed, timed out or was cancelled undoes the steps that succeeded. In addition to its
-- letters it records `fans -> 'undo'`: the order in which those steps ended, and how the run ends once it is undone. It shares the
-- column of the counters, so that runs without compensations read and write nothing more.

alter table windlass.notice drop constraint notice_word_check;
alter table windlass.notice add constraint notice_word_check check (word in ('ended', 'cancel', 'compensate', 'undo'));
comment on column windlass.notice.word is
  'ended: a child run; cancel: this run; compensate: cancel it and undo what succeeded; undo: undo it although it completed';

-- The compensations are numbered after the steps of the document, in the order of the steps that they undo.
create or replace view windlass.step with (security_invoker = true) as
select r.id as run_id, s.number - 1 as step, s.name, substr(r.steps, s.number::int, 1) as letter,
       case substr(r.steps, s.number::int, 1) when '.' then 'waiting' when 'a' then 'active' when 's' then 'succeeded'
         when 'f' then 'failed' when 't' then 'timed out' when 'k' then 'skipped' when 'c' then 'cancelled' end as state
  from windlass.run r
  join windlass.version v on v.id = r.version_id
 cross join lateral (
   select t.document ->> 'name' as name, t.number
     from jsonb_array_elements(v.document -> 'tasks') with ordinality as t(document, number)
   union all
   select (t.document ->> 'name') || '.compensate', jsonb_array_length(v.document -> 'tasks') + row_number() over (order by t.number)
     from jsonb_array_elements(v.document -> 'tasks') with ordinality as t(document, number)
    where jsonb_typeof(t.document -> 'compensate') = 'object' or t.document -> 'compensate' = 'true') as s;
