#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the path around the engine costs: TPOT through the daemon beside TPOT of
`haloctl bench model`, alternating in one run, and requests a second of /health.

    tests/bench/path.py [BUILD_DIR] [ROUNDS]     (from the top; prints rows of CSV)

Medians over the rounds. A machine that does something else at the same time shows in
the spread, which is printed to stderr."""
import http.client
import json
import os
import statistics
import subprocess
import sys
import time

BUILD = sys.argv[1] if len(sys.argv) > 1 else "build"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 9
MODEL = "models/halo-tiny"
PORT = 18099
URL = "http://127.0.0.1:%d" % PORT


def haloctl(*argv):
    out = subprocess.run([BUILD + "/haloctl", *argv, "--json"], check=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)


def health_rate(seconds):
    conn = http.client.HTTPConnection("127.0.0.1", PORT)
    n, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        conn.request("GET", "/health")
        conn.getresponse().read()
        n += 1
    return n / seconds


def measure():
    served, direct, prefill = [], [], []
    for _ in range(ROUNDS):
        s = haloctl("bench", "serve", "--url", URL, "--input-len", "16", "--output-len",
                    "128", "--concurrency", "1", "--num-prompts", "8")
        m = haloctl("bench", "model", "--model", MODEL, "-p", "128,512", "-n", "128",
                    "--repeat", "5")
        served.append(s["median_tpot_ms"])
        direct.append(m["tpot_ms"])
        prefill.append(m["prefill"])
    print("serve", sorted(served), "\nmodel", sorted(direct), file=sys.stderr)
    a, b = statistics.median(served), statistics.median(direct)
    yield "tpot-served", "16 in 128 out, 1 stream", a, "ms"
    yield "tpot-direct", "128 out at depth 0", b, "ms"
    yield "tpot-overhead", "served - direct", a - b, "ms"
    yield "decode", "1 stream", 1000 / b, "tokens/s"
    for n in ("128", "512"):
        yield ("prefill", n + " tokens", statistics.median(p[n] for p in prefill),
               "tokens/s")
    s = haloctl("bench", "serve", "--url", URL, "--input-len", "64", "--output-len",
                "128", "--concurrency", "8", "--num-prompts", "32")
    yield "served", "64 in 128 out, 8 streams", s["output_throughput"], "tokens/s"
    yield "health", "1 connection, Python client", health_rate(3), "requests/s"


commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True,
                        stdout=subprocess.PIPE, text=True).stdout.strip()
daemon = subprocess.Popen([BUILD + "/halod", "-c", "/dev/null", "--model", MODEL, "--port",
                           str(PORT), "--log-level", "error", "--no-access-log"],
                          env={**os.environ})
try:
    time.sleep(1)
    for case, shape, value, unit in measure():
        print("%s,%s,%s,\"%s\",%.4g,%s" % (commit, time.strftime("%Y-%m-%d"), case, shape,
                                          value, unit), flush=True)
finally:
    daemon.terminate()
    daemon.wait()
