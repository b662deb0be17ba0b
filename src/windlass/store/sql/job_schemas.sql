-- What the arguments of job types must look like.

-- name: insert
-- A version is written once. Nothing back: there is one already.
insert into windlass.job_schema (org, type, version, uri, document, mode) values ($1, $2, $3, $4, $5::jsonb, $6)
on conflict do nothing returning created_at

-- name: of_type
-- All versions of a type.
select type, version, uri, document, mode, created_at from windlass.job_schema where org = $1 and type = $2 limit 1000

-- name: list
-- All of an org.
select type, version, uri, document, mode, created_at from windlass.job_schema where org = $1 order by type, created_at limit $2

-- name: remove
-- Forget a version.
delete from windlass.job_schema where org = $1 and type = $2 and version = $3 returning true
