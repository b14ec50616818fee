"""The nodes of a Ray cluster. madke must be installed on each of them, in the same version."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from madke.core.errors import UserError
from madke.workers import R, T, Workers, in_order

_RETRIES = -1
"""A task whose worker or node is lost is done again until it is done; an exception of the task itself ends the work."""


@contextmanager
def ray_workers(address: str | None, *, gpus: bool) -> Iterator[Workers]:
    """A connection to the cluster at ``address``; without one, or ``RAY_ADDRESS``, a cluster on this machine.

    Where this process is connected to a cluster already, that connection is used, and left open.

    Raises:
        UserError: ray is missing, or nothing answers there.
    """
    # Without it Ray warns that a later version will hide GPUs from tasks that ask for none otherwise than today.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise UserError("--engine ray needs ray: pip install 'madke[ray]'") from error
    ours = not ray.is_initialized()
    if ours:
        address = address or os.environ.get("RAY_ADDRESS")
        local: dict[str, Any] = {} if address else {"include_dashboard": False}
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **local)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UserError(f"no Ray cluster at {address}: {next(iter(str(error).splitlines()), error)}") from None
    try:
        yield _Cluster(ray, gpus=gpus)
    finally:
        if ours:
            ray.shutdown()


class _Cluster:
    def __init__(self, ray: Any, *, gpus: bool) -> None:
        self._ray = ray
        resources = ray.cluster_resources()
        on_gpu = gpus and resources.get("GPU", 0) >= 1
        self._needs = {"num_cpus": 1, "num_gpus": 1 if on_gpu else 0}
        self._slots = int(resources.get("GPU" if on_gpu else "CPU", 1))

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        ray = self._ray

        @ray.remote(max_retries=_RETRIES, **self._needs)  # type: ignore[untyped-decorator]
        def work(task: T) -> R:
            return function(task)

        def result(reference: Any) -> R:
            try:
                value: R = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                raise UserError(f"Ray: {next(iter(str(error).splitlines()), type(error).__name__)}") from None
            return value

        return in_order(work.remote, result, tasks, ahead=2 * max(1, self._slots))
