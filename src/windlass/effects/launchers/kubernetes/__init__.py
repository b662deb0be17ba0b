"""The launcher of Kubernetes: each launch is a Job (batch/v1) of a namespace.

`kubernetes_asyncio` (the extra `windlass[kubernetes]`) manages the credentials and the connections. Documents are kept
as plain mappings, so that a list of thousands of jobs does not become thousands of model objects.
"""

from windlass.effects.launchers.kubernetes.launcher import open_launcher

__all__ = ["open_launcher"]
