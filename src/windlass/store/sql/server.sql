-- Queries about the server itself.

-- name: read_only
-- scope: global
-- Return whether writes are refused: on a standby, or because of a setting of the database, the role or an operator.
select current_setting('transaction_read_only')::boolean

-- name: notify
-- scope: global
-- Send notifications. Postgres delivers equal ones of a transaction once.
select pg_notify($1, topic) from unnest($2::text[]) as topic
