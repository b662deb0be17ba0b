"""The outside world: performs what was decided and returns an Outcome, never raises for it."""
