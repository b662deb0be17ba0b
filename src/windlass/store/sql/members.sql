-- Members of orgs: people who log in with OpenID Connect. An address is stored in lower case.

-- name: put
-- scope: org
-- Add a member, or change the role of one.
insert into windlass.member as m (org, email, role, created_by) values ($1, $2, $3, $4)
on conflict (org, email) do update set role = excluded.role
returning m.org, m.email, m.role, m.created_at, m.created_by

-- name: list
-- scope: org
-- List at most $2 members of an org by address, after the address $3.
select org, email, role, created_at, created_by from windlass.member where org = $1 and email > $3 order by email limit $2

-- name: lock
-- scope: org
-- Lock and return the admins of an org and the member $2. This serializes changes of admins, so that two of them cannot
-- remove each other.
select org, email, role, created_at, created_by from windlass.member
 where org = $1 and (role = 'admin' or email = $2) order by email for update

-- name: remove
-- scope: org
-- Remove a member.
delete from windlass.member where org = $1 and email = $2

-- name: of_email
-- scope: global
-- Return the orgs that the owner of an address is a member of, and whether they are disabled.
select m.org, m.role, o.disabled_at is not null as disabled from windlass.member m join windlass.org o on o.name = m.org
 where m.email = $1 order by m.org
