-- May run before the new code: yes (an index).
-- Outside a transaction
-- Running runs of a workflow are counted under its lock, whenever one of them ends. The former index listed the runs that wait for a
-- place as well: with 100,000 of them a count took 16 ms.

create index concurrently if not exists run_live_state on windlass.run (workflow_id, state) where state in ('pending', 'running');
drop index concurrently if exists windlass.run_live;
