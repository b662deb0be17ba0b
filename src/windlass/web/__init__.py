"""The HTTP server: the API of Windlass, the Open Job Spec, hooks and the dashboard."""
