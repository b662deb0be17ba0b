-- Schemas for the arguments of job types.

-- name: insert
-- scope: org
-- Insert a version of a schema. Versions are immutable: no row is returned if it already exists.
insert into windlass.job_schema (org, type, version, uri, document, mode) values ($1, $2, $3, $4, $5::jsonb, $6)
on conflict do nothing returning created_at

-- name: of_type
-- scope: org
-- Return all versions for a type, up to 1000.
select type, version, uri, document, mode, created_at from windlass.job_schema where org = $1 and type = $2 limit 1000

-- name: list
-- scope: org
-- List the schemas of an org.
select type, version, uri, document, mode, created_at from windlass.job_schema where org = $1 order by type, created_at limit $2

-- name: remove
-- scope: org
-- Delete a version.
delete from windlass.job_schema where org = $1 and type = $2 and version = $3 returning true
