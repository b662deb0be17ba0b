-- Duties that one process at a time carries out.

-- name: take
-- Take or renew the term of a duty; no row back means somebody else holds it.
insert into windlass.term (duty, holder, until) values ($1, $2, windlass.now() + $3::interval)
on conflict (duty) do update set holder = excluded.holder, until = excluded.until
 where windlass.term.holder = excluded.holder or windlass.term.until < windlass.now()
returning true

-- name: resign
-- Give a term up, so that the next holder need not wait for its end.
delete from windlass.term where duty = $1 and holder = $2
