-- Leader terms: leases on duties that must run in only one process.

-- name: take
-- scope: global
-- Take or renew the leader term of a duty. Returns whether the caller holds it, the current time, and when the term was last
-- renewed before.
with former as (select renewed_at from windlass.term where duty = $1),
taken as (
  insert into windlass.term (duty, holder, until, renewed_at) values ($1, $2, windlass.now() + $3::interval, windlass.now())
  on conflict (duty) do update set holder = excluded.holder, until = excluded.until, renewed_at = excluded.renewed_at
   where windlass.term.holder = excluded.holder or windlass.term.until < windlass.now()
  returning true)
select exists (select from taken) as held, windlass.now() as now, (select renewed_at from former) as renewed_before

-- name: resign
-- scope: global
-- End a leader term early, so that the next holder need not wait. The row is kept, because it records when the duty was last
-- carried out.
update windlass.term set until = '-infinity', renewed_at = windlass.now() where duty = $1 and holder = $2
