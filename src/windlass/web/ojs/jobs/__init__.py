"""Jobs of the Open Job Spec over HTTP: push, fetch, report, and what belongs to a job."""
