"""The process of a llama.cpp server. Run as a file, it imports nothing of madke, so that it starts at once.

It reads its settings as one line of JSON from standard input, answers with one line, its address, when the model is
loaded, and ends when standard input does: also if the process that started it was killed.
"""

import json
import os
import sys


def serve_model() -> None:
    """Serve one model until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the library prints: keep that out of the answers
    settings = json.loads(sys.stdin.buffer.readline())
    # Threads of llama.cpp wait for each other by spinning. Next to other busy processes that makes them many times
    # slower. The variable is read when libgomp is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = settings["file"]
    parameters.n_parallel = settings["slots"]
    parameters.n_ctx = settings["slots"] * settings["context"]
    quarter_of_memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 22
    parameters.cache_ram_mib = min(8_192, quarter_of_memory)  # for prompts that the server keeps
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0  # the system chooses a free one
    parameters.api_keys = [settings["key"]]
    parameters.ui = parameters.endpoint_slots = parameters.warmup = False
    parameters.verbosity = 1  # errors
    server = xllamacpp.Server(parameters)
    answers.write(f"{server.listening_address}\n")
    answers.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # without the server's own end, which may wait for ever


if __name__ == "__main__":
    serve_model()
