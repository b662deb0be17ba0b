"""Background loops: timers, schedules, the sweep of runs, upkeep and webhook deliveries."""
