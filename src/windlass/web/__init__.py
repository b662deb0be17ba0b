"""HTTP: the API of Windlass, the Open Job Spec, hooks and the dashboard, on one server."""
