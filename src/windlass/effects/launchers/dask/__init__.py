"""The launcher of Dask: each launch is a task of a cluster, which starts a process on a Dask worker and waits for it.

`distributed` (the extra `windlass[dask]`) is imported when the first pool is opened.
"""

from windlass.effects.launchers.dask.launcher import open_launcher

__all__ = ["open_launcher"]
