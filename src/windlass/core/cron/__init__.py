"""Cron expressions: syntax, calendar and ticks."""
