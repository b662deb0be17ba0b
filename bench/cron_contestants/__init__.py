"""The contestants of `python -m bench.cron`: in-process schedulers, a module for each."""
