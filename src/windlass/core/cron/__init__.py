"""Cron expressions: syntax, calendar, and when they fire next."""
