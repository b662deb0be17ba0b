-- May run before the new code: yes (an index in place of another one).
-- Outside a transaction
-- Lists of live runs read and sorted all of them: with 10,000 a page took 18 ms. They walk the index that lists of failed runs have.

create index concurrently if not exists run_of_state on windlass.run (org, state, id) where state <> 'completed';
drop index concurrently if exists windlass.run_bad;
