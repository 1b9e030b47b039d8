#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official OpenAI client for Node: starts halod and lets test_openai_node.mjs talk
to it. test.sh installs the client below build/clients; without it this is skipped."""
import json
import os
import shutil
import subprocess
import sys

from halod import BUILDDIR, PATIENCE, SRCDIR, run

CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(BUILDDIR, "clients"))
MODULES = os.path.abspath(os.path.join(CLIENTS, "node", "node_modules"))
NODE = shutil.which("node")

if not NODE or not os.path.isdir(os.path.join(MODULES, "openai")):
    print("1..0 # SKIP Node or its openai package is not there; test.sh installs them")
    sys.exit(0)


def test_node(t, d):
    """It prints one JSON object a fact: name, pass, note."""
    script = os.path.join(SRCDIR, "tests", "http", "test_openai_node.mjs")
    p = subprocess.run([NODE, script, MODULES, "http://127.0.0.1:%d/v1" % d.port],
                       stdout=subprocess.PIPE, text=True, timeout=2 * PATIENCE)
    for line in p.stdout.splitlines():
        fact = json.loads(line)
        t.ok(fact["pass"], fact["name"], fact["note"])
    t.equal(p.returncode, 0, "the script ends well")
    d.wait_metrics(num_requests_running=0)


run([test_node])
