"""Events: the live stream, events of the Open Job Spec, and webhook subscriptions."""
