#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients for Node: starts halod and lets test_openai_node.mjs and test_audio_node.mjs (the official
OpenAI client), test_ollama_node.mjs (Ollama's) and test_clients_node.mjs (others) talk to it.
test.sh installs them below build/clients; without them this is skipped."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from halod import BUILDDIR, PATIENCE, SRCDIR, Halod, run
from sounds import is_built

CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(BUILDDIR, "clients"))
MODULES = os.path.abspath(os.path.join(CLIENTS, "node", "node_modules"))
NODE = shutil.which("node")

PACKAGES = ("openai", "@anthropic-ai/sdk", "ai", "@ai-sdk/openai-compatible",
            "@langchain/openai", "ollama")

if not NODE or not all(os.path.isdir(os.path.join(MODULES, p)) for p in PACKAGES):
    print("1..0 # SKIP Node or one of %s is not there; test.sh installs them"
          % ", ".join(PACKAGES))
    sys.exit(0)


def execute(t, d, name, path):
    """A script prints one JSON object a fact: name, pass, note."""
    script = os.path.join(SRCDIR, "tests", "http", name)
    env = {**os.environ, "LANGCHAIN_TRACING_V2": "false", "LANGSMITH_TRACING": "false",
           "AI_SDK_LOG_WARNINGS": "false"}
    p = subprocess.run([NODE, script, MODULES, "http://127.0.0.1:%d%s" % (d.port, path)],
                       stdout=subprocess.PIPE, text=True, timeout=4 * PATIENCE, env=env)
    for line in p.stdout.splitlines():
        if not line.startswith("{"):
            continue  # words of a client
        fact = json.loads(line)
        t.ok(fact["pass"], fact["name"], fact["note"])
    t.equal(p.returncode, 0, "the script ends well")
    d.wait_metrics(num_requests_running=0)


def test_openai(t, d):
    execute(t, d, "test_openai_node.mjs", "/v1")


def test_audio(t, d):
    if not is_built(BUILDDIR):
        t.skip("halod was built without the libraries for audio")
        return
    omni = Halod(model=os.path.join(SRCDIR, "tests/golden/vision/qwen3omni"), max_output_tokens=6)
    execute(t, omni, "test_audio_node.mjs", "/v1")
    t.equal(omni.stop(), 0, "and it ends well")


def test_ollama(t, d):
    execute(t, d, "test_ollama_node.mjs", "")


def test_others(t, d):
    execute(t, d, "test_clients_node.mjs", "")


with tempfile.TemporaryDirectory() as state:
    run([test_openai, test_audio, test_ollama, test_others], state_dir=state)
