-- Roles of SQL clients and their orgs. Only the operator manages them.

-- name: get
-- scope: global
-- Return the org of a role.
select role::text, org from windlass.sql_role where role = $1::text::name

-- name: list
-- scope: global
-- List the roles by org.
select role::text, org from windlass.sql_role order by org, role

-- name: may_act_for_all
-- scope: global
-- Return whether a role exists and has the rights of the engine.
select rolsuper or rolbypassrls or has_table_privilege(oid, 'windlass.run'::regclass, 'UPDATE') from pg_roles where rolname = $1::text::name

-- name: grant
-- scope: global
-- Assign a role to an org.
select windlass.grant_sql($1::text::name, $2, $3)

-- name: revoke
-- scope: global
-- Remove a role from its org. Returns false if it belongs to none.
select windlass.revoke_sql($1::text::name)
