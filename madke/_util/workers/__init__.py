"""Run a function over tasks in this process, in several processes, or on a Ray cluster.

The function takes one task and writes no files. Tasks and results are pickled, and only the calling process writes
files, so a cluster needs a shared disk only for what the function reads.
"""

from contextlib import AbstractContextManager, nullcontext

from madke._util.workers.base import IN_THIS_PROCESS, Engine, InProcess, Workers
from madke._util.workers.local import local_workers
from madke.core.errors import UserError

__all__ = ["IN_THIS_PROCESS", "Engine", "InProcess", "Workers", "open_workers"]


def open_workers(
    engine: Engine, *, processes: int | None = None, address: str | None = None, gpus: bool = False
) -> AbstractContextManager[Workers]:
    """Open workers for a ``with`` block; they end with the block.

    Args:
        engine: ``local``: this process or several. ``ray``: a Ray cluster.
        processes: Number of processes for the engine ``local``; None: this process does the work.
        address: ``HOST:PORT`` of the cluster's head, or ``auto``; None: that of ``RAY_ADDRESS``, or a new cluster.
        gpus: For functions that use a GPU, or all cores without one. On a cluster, each task gets a GPU or, if there
            are none, as many CPUs as the smallest node has. If False, each task gets one CPU.
    """
    if engine == "ray":
        from madke._util.workers.ray_cluster import ray_workers

        return ray_workers(address, gpus=gpus)
    if address is not None:
        raise UserError("--address is the address of a Ray cluster; it needs --engine ray")
    return nullcontext(IN_THIS_PROCESS) if processes is None else local_workers(processes)
