"""The program that serves the small model: run by :mod:`.local`, in a process of its own.

It imports nothing of this project, so that it starts quickly and can be run by
its path.  It prints one JSON line, the address, and serves until its standard
input ends.  The pipe behind that is held by the process that started it:
however that one ends, `kill -9` included, this one ends with it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
from typing import Any


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("weights")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--alias", required=True)
    asked = parser.parse_args()

    # Ctrl-C goes to every process of the terminal.  Whoever started us decides
    # what it means, and may have answers to wait for.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    # Whatever the engine prints, our standard output says one thing only.
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    # By name, because it is there only where `standby local install` put it.
    engine: Any = importlib.import_module("xllamacpp")
    params = engine.CommonParams()
    params.model.path = asked.weights
    params.model_alias = {asked.alias}
    params.port = asked.port
    # The context is shared out evenly among the slots.
    params.n_ctx = asked.context * asked.slots
    params.n_parallel = asked.slots
    params.cpuparams.n_threads = asked.threads
    params.cpuparams_batch.n_threads = asked.threads
    # A generation that forgets its beginning to go on would be a silent cut.
    params.ctx_shift = False
    # Prompts of past tasks are kept for the next ones; 8 GiB of them, by
    # default, are more than a helper of this size may take.
    params.cache_ram_mib = 256
    params.ui = False
    params.verbosity = 1
    server = engine.Server(params)
    print(json.dumps({"address": server.listening_address}), file=told, flush=True)
    sys.stdin.buffer.read()
    # Not sys.exit: taking the engine apart waits for generations in progress,
    # which nobody will read.
    os._exit(0)


if __name__ == "__main__":
    main()
