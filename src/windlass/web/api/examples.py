"""Example responses for the OpenAPI document, by type name."""

from collections.abc import Mapping

from windlass.web.api.org_examples import ORG_EXAMPLES, Example

JOB_ID = "01890a5d-ac96-774b-bcce-b302099a8058"
RUN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
WORKFLOW_ID = "018cc251-f400-7f5c-8a3a-6d3e6f1c9b10"

# Jobs

JOB: Example = {
    "id": JOB_ID,
    "type": "content.thumbnail.v1",
    "status": "failed",
    "queue": "default",
    "priority": 100,
    "attempt": 3,
    "max_attempts": 3,
    "run_at": "2026-02-22T10:05:00Z",
    "inserted_at": "2026-02-22T10:00:00Z",
    "updated_at": "2026-02-22T10:05:03Z",
    "finished_at": "2026-02-22T10:05:03Z",
    "worker": None,
    "error": "no such object: c_123",
    "tags": ["shop"],
    "idempotency_key": None,
    "run_id": None,
    "task": None,
    "index": None,
    "place": "4711",
}
JOB_DETAIL: Example = JOB | {
    "payload": {"content_id": "c_123"},
    "result": None,
    "errors": [{"attempt": 3, "at": "2026-02-22T10:05:03Z", "type": "LookupError", "message": "no such object: c_123"}],
    "lost_leases": 0,
    "started_over": 0,
    "lease_until": None,
    "cancel_requested": False,
    "timeout": "30s",
    "retry": {"kind": "exponential", "base": 1.0, "factor": 2.0, "cap": None, "jitter": 0.1},
    "meta": {},
    "progress": {"fraction": 0.4, "message": "40 of 100 pages", "data": None, "at": "2026-02-22T10:05:02Z"},
}
JOB_EVENT: Example = {
    "id": "42",
    "event": "retried",
    "attempt": 1,
    "actor": "worker-1",
    "data": {"error": "no such object: c_123", "delay_seconds": 1.0},
    "at": "2026-02-22T10:05:01Z",
}
LOG_LINE: Example = {"attempt": 1, "at": "2026-02-22T10:05:01Z", "level": "INFO", "message": "7 rows"}
DEAD_LETTERS: Example = {
    "type": "content.thumbnail.v1",
    "queue": "default",
    "error": "LookupError: no such object: <id>",
    "of_runs": False,
    "count": 42,
    "capped": False,
    "first_at": "2026-02-22T10:05:03Z",
    "last_at": "2026-02-22T11:15:42Z",
    "example_job_id": JOB_ID,
    "example_error": "no such object: c_123",
}
BATCH: Example = {"dry_run": False, "done": 1, "left": 0, "runs": [RUN_ID], "next": None}

# Queues, workers, quarantine

QUEUE: Example = {
    "name": "default",
    "paused": False,
    "due": 12,
    "scheduled": 3,
    "leased": 8,
    "capped": False,
    "oldest_seconds": 1.5,
    "paused_at": None,
    "resumed_at": None,
    "ended_per_second": 40.2,
}
WORKER: Example = {
    "id": "web-1-4711",
    "status": "running",
    "host": "web-1",
    "pid": 4711,
    "queues": ["default", "sql"],
    "types": ["content.thumbnail.v1"],
    "slots": 100,
    "active": 8,
    "started_at": "2026-02-22T10:00:00Z",
    "seen_at": "2026-02-22T10:05:00Z",
    "seen_seconds_ago": 2.5,
}
POOL: Example = {
    "name": "gpu",
    "launcher": "kubernetes",
    "max_parallel": 50,
    "image": "registry.example/train:7",
    "holder": "web-1-4711",
    "problem": None,
    "fix": None,
    "seen_at": "2026-02-22T10:00:00Z",
    "alive": True,
    "waiting": 0,
    "running": 3,
}
QUARANTINED: Example = {
    "kind": "run",
    "key": "01a1dda3-07b5-7e5c-8f1a-0d6a2f0b4a11",
    "error_type": "UnreadableVersion",
    "reason": "version 7 of a workflow cannot be read by this process: tasks.ship: it does nothing",
    "failures": 3,
    "first_at": "2026-02-22T10:00:00Z",
    "last_at": "2026-02-22T10:00:07Z",
    "retry_at": "2026-02-22T10:00:15Z",
}

# Runs

NEW_RUN: Example = {
    "run_id": RUN_ID,
    "workflow_id": WORKFLOW_ID,
    "status": "running",
    "started_at": "2026-02-22T10:05:00Z",
}
RUN: Example = {
    "id": RUN_ID,
    "workflow_id": WORKFLOW_ID,
    "workflow": "order-processing",
    "version": 1,
    "status": "completed",
    "inserted_at": "2026-02-22T10:05:00Z",
    "started_at": "2026-02-22T10:05:00Z",
    "finished_at": "2026-02-22T10:05:03Z",
    "expires_at": "2026-03-24T10:05:00Z",
    "task_counts": {"success": 1},
    "labels": {},
    "idempotency_key": None,
    "parent_run_id": None,
    "retried": 0,
}
ATTEMPT: Example = {
    "attempt": 1,
    "status": "completed",
    "began_at": "2026-02-22T10:05:00Z",
    "ended_at": "2026-02-22T10:05:03Z",
}
TASK: Example = {
    "status": "success",
    "type": "http",
    "activity": None,
    "until": None,
    "status_code": 200,
    "duration_ms": 450,
    "started_at": "2026-02-22T10:05:00Z",
    "finished_at": "2026-02-22T10:05:00Z",
    "attempt": 1,
    "max_attempts": 4,
    "error": None,
    "error_message": None,
    "reason": None,
}
RUN_DETAIL: Example = RUN | {
    "duration_ms": 3000,
    "input": {"order_id": 123},
    "reason": None,
    "cursor": "7312+0",
    "trigger": {"kind": "api", "scheduled_for": None, "parent_id": None},
    "attempts": [ATTEMPT],
    "tasks": {"charge": TASK},
}
RUN_EVENT: Example = {
    "id": "42",
    "task": "send-receipt",
    "event": "skipped",
    "code": "if",
    "reason": "tasks.charge.status_code == 200 is false: tasks.charge.status_code is 402",
    "actor": "worker",
    "attempt": None,
    "at": "2026-02-22T10:05:01Z",
}
INSTANCE: Example = {
    "index": 0,
    "job_id": JOB_ID,
    "status": "success",
    "attempt": 1,
    "max_attempts": 3,
    "result": {"rows": 7},
    "error": None,
    "errors": [],
    "worker": None,
    "started_at": "2026-02-22T10:05:00Z",
    "finished_at": "2026-02-22T10:05:01Z",
}

# Workflows

WORKFLOW: Example = {
    "id": WORKFLOW_ID,
    "name": "order-processing",
    "trigger": "api",
    "task_count": 1,
    "enabled": True,
    "inserted_at": "2026-02-22T10:00:00Z",
    "updated_at": "2026-02-22T10:00:00Z",
    "version": 1,
    "description": None,
    "cron_expression": None,
    "timezone": None,
}
CHARGE: Example = {"url": "https://myapp.com/api/charge", "method": "POST", "max_attempts": 4, "timeout": "30s"}
NUMBERS: Example = {
    "latest": [{"id": RUN_ID, "status": "completed"}],
    "success_rate": 0.98,
    "p50_ms": 1200,
    "p95_ms": 4800,
    "next_run_at": None,
}
VERSION: Example = {
    "version": 1,
    "live": True,
    "task_count": 1,
    "fingerprint": "9f86d081884c7d65",
    "inserted_at": "2026-02-22T10:00:00Z",
}
DEFINITION: Example = {"name": "order-processing", "trigger": "api", "tasks": [{"name": "charge"} | CHARGE]}
WORKFLOW_DETAIL: Example = WORKFLOW | {
    "max_duration": "30d",
    "concurrency": None,
    "labels": {},
    "input": {"type": "object", "properties": {"order_id": {"type": "integer"}}, "required": ["order_id"]},
    "tasks": {"charge": CHARGE},
    "versions": [VERSION],
    "schedule": None,
    "stats": NUMBERS,
}
NODE: Example = {
    "name": "charge",
    "type": "http",
    "does": "POST https://myapp.com/api/charge",
    "remarks": [],
    "fan_out": False,
    "final": False,
    "join": "all",
    "if": None,
    "child": None,
    "runs_on": None,
}
GRAPH: Example = {"workflow": "order-processing", "tasks": [NODE], "edges": []}
CHANGES = ["@@ tasks.charge @@", '-  "timeout": "30s"', '+  "timeout": "1m"']
DEPLOYED: Example = {
    "name": "order-processing",
    "workflow_id": WORKFLOW_ID,
    "version": 1,
    "change": "new",
    "webhook_url": None,
    "lines": [],
}
SCHEDULE: Example = {
    "name": "order-processing",
    "starts": "run",
    "id": "018cc251-f400-7f5c-8a3a-6d3e6f1c9b11",
    "cron": "0 2 * * *",
    "timezone": "Europe/Berlin",
    "input": {"bucket": "landing"},
    "overlap": "skip",
    "catch_up": "one",
    "enabled": True,
    "paused": False,
    "paused_reason": None,
    "next_run_at": "2026-02-23T01:00:00Z",
    "waiting_tick": None,
    "last_run_at": "2026-02-22T01:00:00Z",
    "last_run_id": RUN_ID,
    "skipped_at": None,
    "skipped_reason": None,
}
BACKFILL: Example = {
    "dry_run": False,
    "started": 1,
    "left": 0,
    "runs": [{"tick": "2026-02-21T01:00:00Z", "run_id": RUN_ID}],
    "next": None,
}

# Job types

JOB_TYPE: Example = {
    "type": "content.thumbnail.v1",
    "schema": {
        "type": "object",
        "properties": {"content_id": {"type": "string"}, "width": {"type": "integer", "default": 300}},
        "required": ["content_id"],
        "additionalProperties": False,
        "x-positional": ["content_id", "width"],
    },
    "digest": "9f2d4c1b7a60e835",
    "drift": False,
    "workers": 2,
    "versions": 1,
    "first_seen_at": "2026-02-20T10:00:00Z",
    "last_seen_at": "2026-02-22T10:00:00Z",
}
JOB_TYPE_VERSION: Example = {
    "digest": JOB_TYPE["digest"],
    "schema": JOB_TYPE["schema"],
    "code_version": "2026.2.1",
    "workers": 2,
    "worker_ids": ["web-1-4711", "web-2-4711"],
    "first_seen_at": JOB_TYPE["first_seen_at"],
    "last_seen_at": JOB_TYPE["last_seen_at"],
}

# Overview and errors

STATS: Example = {
    "runs": {"counts": {"pending": 0, "running": 3, "completed": 11, "failed": 1}, "capped": []},
    "jobs": {"counts": {"due": 12, "scheduled": 3, "succeeded": 10000}, "capped": ["succeeded"]},
    "hours": [
        {
            "at": "2026-02-22T10:00:00Z",
            "started": 12,
            "completed": 11,
            "failed": 1,
            "cancelled": 0,
            "timeout": 0,
            "capped": False,
        }
    ],
    "failing": [RUN | {"status": "failed"}],
    "queues": [],
    "workers": {"up": 2, "silent": 0, "slots": 200, "active": 8},
    "next": [],
}
PROBLEM: Example = {
    "type": "about:blank",
    "title": "Invalid",
    "status": 422,
    "detail": "tasks.send-receipt.needs: there is no step 'chrage'",
    "field": "tasks.send-receipt.needs",
    "errors": [{"field": "tasks.send-receipt.needs", "message": "there is no step 'chrage'"}],
}

EXAMPLES: Mapping[str, Example] = ORG_EXAMPLES | {
    "Sent": {"again": False},
    "Job": JOB,
    "JobDetail": JOB_DETAIL,
    "SubmittedJobs": {"created": 1, "jobs": [{"id": JOB_ID, "created": True}]},
    "JobType": JOB_TYPE,
    "JobTypeDetail": JOB_TYPE | {"history": [JOB_TYPE_VERSION]},
    "JobEvent": JOB_EVENT,
    "JobLogLine": LOG_LINE,
    "DeadLetterGroup": DEAD_LETTERS,
    "DeadLetterBatch": BATCH | {"jobs": [JOB_ID], "runs": []},
    "Queue": QUEUE,
    "Worker": WORKER,
    "WorkerDetail": WORKER | {"jobs": []},
    "Pool": POOL,
    "Quarantined": QUARANTINED,
    "NewRun": NEW_RUN,
    "Run": RUN,
    "RunDetail": RUN_DETAIL,
    "WaitedRun": RUN_DETAIL | {"run_id": RUN_ID, "output": {"charged": True}},
    "RunEvent": RUN_EVENT,
    "Batch": BATCH,
    "Instance": INSTANCE,
    "TaskLogLine": LOG_LINE | {"task": "load", "index": 3},
    "Workflow": WORKFLOW,
    "ListedWorkflow": WORKFLOW | {"stats": NUMBERS},
    "PublishedWorkflow": WORKFLOW | {"changed": True, "webhook_url": None},
    "WorkflowDetail": WORKFLOW_DETAIL,
    "WorkflowNumbers": NUMBERS,
    "Version": VERSION,
    "VersionDetail": VERSION | {"definition": DEFINITION},
    "Difference": {"from": 1, "to": 2, "lines": CHANGES},
    "Deployment": {"dry_run": False, "workflows": [DEPLOYED], "warnings": []},
    "Address": {"url": "https://windlass.example.com/in/8f14e45f"},
    "Graph": GRAPH,
    "Preview": {"name": "order-processing", "change": "changed", "version": 2, "lines": CHANGES, "warnings": []}
    | {"graph": GRAPH},
    "Schedule": SCHEDULE,
    "ScheduleDetail": SCHEDULE | {"upcoming": ["2026-02-23T02:00:00+01:00"]},
    "Backfill": BACKFILL,
    "Stats": STATS,
    "Problem": PROBLEM,
}
