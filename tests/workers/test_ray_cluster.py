"""Connections to a Ray cluster."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

from madke._util.assets import versions
from madke._util.workers import connected, same_versions
from madke.core.errors import UserError
from tests.support.installed import needs
from tests.support.ray_nodes import running_cluster

needs("ray", "ray")
pytestmark = pytest.mark.slow


def test_a_node_with_other_versions_is_refused() -> None:
    there = versions()
    here = there | {"torch": "0.0.1", "newer": "7"}
    del here["pydantic"]

    with pytest.raises(UserError) as refused:
        same_versions(here)()

    others = f"newer missing (expected 7), pydantic {there['pydantic']} (expected none), torch {there.get('torch')}"
    expected = f"Ray: the node {socket.gethostname()} has other versions than this machine: {others} (expected 0.0.1);"
    assert str(refused.value).startswith(expected.replace("torch None", "torch missing"))


def test_a_connection_that_is_there_is_used_and_left_open() -> None:
    import ray

    cluster: Any
    with running_cluster() as cluster:
        with connected(cluster.address):
            with connected():
                assert ray.is_initialized()
            assert ray.is_initialized()
        assert not ray.is_initialized()


def test_an_address_where_nothing_answers_is_refused_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(UserError, match=f"{address}: no answer"), connected(address):
            pass


def test_java_keeps_the_signals_that_it_lives_by() -> None:
    """Ray takes them when it connects, and gives them to nobody when it disconnects: both would end the process."""
    pytest.importorskip("jnius_config", reason="needs the extra madke[wiki]")
    script = """
import ctypes
from madke.retrieval.indexes.lucene import start_jvm
from madke._util.workers import connected

def handler():
    action = ctypes.create_string_buffer(512)
    ctypes.CDLL(None).sigaction(11, None, action)
    return action.raw[:8]

start_jvm()
java = handler()
with connected():
    meanwhile = handler() == java
print(meanwhile, handler() == java)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
