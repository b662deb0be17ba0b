"""/ojs/v1/admin: queues and jobs for operators."""
