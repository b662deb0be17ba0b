"""Tables of the Open Job Spec: compositions, schedules, checkpoints, dead letters, schemas, limits, subscriptions."""
