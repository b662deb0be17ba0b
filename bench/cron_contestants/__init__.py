"""Schedulers inside a process, side by side. Run `python -m bench.cron`."""
