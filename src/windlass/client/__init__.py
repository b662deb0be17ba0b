"""HTTP clients for programs without access to the database: `Client` blocks, `AsyncClient` is for async code."""

from windlass.client.client import AsyncClient, Client
from windlass.client.transport import Streamed
from windlass.schemas.approvals import Approval, ApprovalLinks
from windlass.schemas.common import Page
from windlass.schemas.jobs import (
    DeadLetterBatch,
    DeadLetterGroup,
    Job,
    JobDetail,
    JobEvent,
    JobLogLine,
    SubmittedJob,
    SubmittedJobs,
)
from windlass.schemas.messages import Sent
from windlass.schemas.monitoring import (
    Depth,
    Pool,
    Quarantined,
    Queue,
    StateCounts,
    Stats,
    StatsHour,
    StatsTick,
    StatsWorkers,
    Worker,
    WorkerDetail,
)
from windlass.schemas.orgs import AuditEntry, Key, Member, NewKey, Org, SqlRole
from windlass.schemas.plans import AssignedPlan, MonthlyUsage, Plan, Usage, UsageDetail
from windlass.schemas.runs import Batch, Explanation, NewRun, Run, RunDetail, RunEvent, StartedRun
from windlass.schemas.schedules import Backfill, Schedule, ScheduleDetail, TickRun
from windlass.schemas.secrets import Secret, SecretRotation
from windlass.schemas.tasks import AwaitedMessage, Counts, Instance, NamedTask, Span, Task, TaskExplanation, TaskLogLine
from windlass.schemas.workflows import (
    Address,
    Arrow,
    Deployed,
    Deployment,
    Difference,
    Graph,
    LatestRun,
    ListedWorkflow,
    Node,
    Preview,
    PublishedWorkflow,
    Version,
    VersionDetail,
    Workflow,
    WorkflowDetail,
    WorkflowNumbers,
    WorkflowSchedule,
)

__all__ = [
    # The clients
    "AsyncClient",
    "Client",
    # Lists and streams
    "Page",
    "Streamed",
    # Workflows
    "Address",
    "Arrow",
    "Deployed",
    "Deployment",
    "Difference",
    "Graph",
    "LatestRun",
    "ListedWorkflow",
    "Node",
    "Preview",
    "PublishedWorkflow",
    "Version",
    "VersionDetail",
    "Workflow",
    "WorkflowDetail",
    "WorkflowNumbers",
    "WorkflowSchedule",
    # Runs
    "Batch",
    "Counts",
    "Explanation",
    "Instance",
    "NamedTask",
    "NewRun",
    "Run",
    "RunDetail",
    "RunEvent",
    "Span",
    "StartedRun",
    "Task",
    "TaskExplanation",
    "TaskLogLine",
    # Jobs, queues, workers, schedules
    "Backfill",
    "DeadLetterBatch",
    "DeadLetterGroup",
    "Depth",
    "Job",
    "JobDetail",
    "JobEvent",
    "JobLogLine",
    "Pool",
    "Quarantined",
    "Queue",
    "Schedule",
    "ScheduleDetail",
    "StateCounts",
    "Stats",
    "StatsHour",
    "StatsTick",
    "StatsWorkers",
    "SubmittedJob",
    "SubmittedJobs",
    "TickRun",
    "Worker",
    "WorkerDetail",
    # Messages and approvals
    "Approval",
    "ApprovalLinks",
    "AwaitedMessage",
    "Sent",
    # Plans and secrets
    "AssignedPlan",
    "MonthlyUsage",
    "Plan",
    "Secret",
    "SecretRotation",
    "Usage",
    "UsageDetail",
    # Organisations
    "AuditEntry",
    "Key",
    "Member",
    "NewKey",
    "Org",
    "SqlRole",
]
