"""Access to Postgres: the connection pool, LISTEN/NOTIFY, outage detection, migrations and named queries."""
