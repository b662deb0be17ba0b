"""The worker: claims jobs, runs their handlers, keeps their leases and reports their outcomes."""
