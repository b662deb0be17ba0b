-- The server itself.

-- name: read_only
-- Whether a write would be refused: on a standby, and where the database, the role or an operator says so.
select current_setting('transaction_read_only')::boolean

-- name: notify
-- Send notifications, each a transaction's once.
select pg_notify($1, topic) from unnest($2::text[]) as topic
