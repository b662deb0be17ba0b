"""The embedded Postgres: its binaries, data folder, lock file and operating system user."""
