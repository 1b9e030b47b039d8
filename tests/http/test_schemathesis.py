#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schemathesis against /openapi.json: whatever it makes of the description, no answer is a
500, and none is undocumented. It makes six requests of each
operation, with HALOD_CHECK=all a hundred. test.sh installs it; without it this is skipped."""
import os
import subprocess
import sys
import tempfile

from halod import CHECK, PATIENCE, need, run

need("schemathesis")

N = "100" if "all" in CHECK else "6"
CHECKS = ("status_code_conformance,content_type_conformance,"
          "response_schema_conformance")
# What this model or halod cannot do is a 501, documented; to schemathesis a fault of the server.
NOT_HERE = ("/v1/embeddings", "/v1/rerank", "/rerank", "/v1/audio/transcriptions",
            "/v1/audio/translations", "/infill", "/api/embed",
            "/api/embeddings", "/lora-adapters", "/v1/responses/compact")


def fuzz(d, *more):
    p = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "schemathesis"), "run",
         "http://127.0.0.1:%d/openapi.json" % d.port, "--max-examples", N, "--seed", "1",
         "--request-timeout", str(PATIENCE), "--phases", "examples,fuzzing", "--no-color",
         "--generation-database", "none", *more],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=d.dir,
        timeout=10 * PATIENCE)
    return p.returncode, p.stdout


def test_most(t, d):
    code, out = fuzz(d, "--checks", "not_a_server_error," + CHECKS,
                     *(w for path in NOT_HERE for w in ("--exclude-path", path)))
    t.ok(code == 0 and " passed" in out, "no 500 and no undocumented answer", out[-4000:])


def test_rest(t, d):
    code, out = fuzz(d, "--checks", CHECKS,
                     *(w for path in NOT_HERE for w in ("--include-path", path)))
    t.ok(code == 0 and " passed" in out, "what is not there says so", out[-4000:])


with tempfile.TemporaryDirectory() as state:
    run([test_most, test_rest], max_output_tokens=8, state_dir=state)
