-- The server itself.

-- name: read_only
-- Whether a write would be refused: on a standby, and where the database, the role or an operator says so.
select current_setting('transaction_read_only')::boolean

-- name: system_identifier
-- Which cluster this is: the number changes when a dump is restored into another one, and survives everything else.
select system_identifier::text from pg_control_system()

-- name: notify
-- Send notifications, each a transaction's once.
select pg_notify($1, topic) from unnest($2::text[]) as topic
