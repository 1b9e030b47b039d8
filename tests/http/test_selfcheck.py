#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The self-check at each start: sound machines pass, on each backend; what computes wrong
numbers does not start, and says why. Under a sanitizer the CPU alone is looked at: the check
is the same on each backend."""
import json
import os
import random
import shutil
import struct
import subprocess
import tempfile

from halod import CHECK, FIBERS, Halod, MODEL, PATIENCE, PROGRAM, Tap, traceback

SHORT = "short" in CHECK  # under a sanitizer
HIP = {"backend": "hip", "ctx": 256, "max_seqs": 2,
       "hip_library": FIBERS}
SPOILT = 65536  # bytes


def passes(t, what, **settings):
    d = Halod(self_check="yes", **settings)
    check = d.get("/health").json["self_check"]
    t.ok(check["result"] == "passed" and 0 < check["mean_delta"] < 0.001 and
         check["max_delta"] < 0.01, what + " passes", check)
    m = d.metrics()
    t.equal((m['self_check{result="passed"}'], m['self_check{result="failed"}']), (1, 0),
            what + ": a metric says so")
    t.ok(abs(m["self_check_mean_delta"] - check["mean_delta"]) < 1e-9,
         what + ": and the difference")
    d.wait_log("self-check: halo-tiny is right on")
    t.equal(d.stop(), 0, what + ": it ends")
    return check["mean_delta"]


def test_sound(t):
    with open("/proc/cpuinfo") as f:
        flags = set(f.read().split())
    sets = [name for name, flag in (("avx2", "avx2"), ("avx512", "avx512_vnni"),
                                    ("avx512_bf16", "avx512_bf16")) if flag in flags]
    exact = passes(t, "exact", backend="cpu", exact="yes")
    t.ok(exact < 1e-5, "the exact path is as close as float32", exact)
    for name in sets[-1:] if SHORT else ("portable", *sets):
        passes(t, name, backend="cpu", cpu_isa=name)
    if not SHORT:
        passes(t, "HIP", **HIP)


def refused(t, what, argv, env={}, program=PROGRAM):
    p = subprocess.run(
        [program, "-c", os.devnull, "--model", MODEL, "--port", "0", *argv],
        stderr=subprocess.PIPE, text=True, timeout=PATIENCE, env={**os.environ, **env})
    t.ok(p.returncode == 7 and "the self-check failed" in p.stderr and
         "haloctl first-run" in p.stderr and "self_check = warn" in p.stderr,
         what + ": status 7, and what to do", (p.returncode, p.stderr))


def test_hip_faults(t):
    """Weights that arrive wrong, a workgroup of one kernel that does not run."""
    argv = ["--backend", "hip", "--hip-library", HIP["hip_library"], "--ctx", "256"]
    for fault in ("upload:3", "lost:attention_d64_prefill_kernel")[:0 if SHORT else 2]:
        refused(t, fault, argv, {"HIP_CPU_FAULT": fault})


def spoil(path, at, noise):
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(noise)


def test_weights(t):
    """Random bytes in halo-tiny's weights, where a machine's memory could have them. The
    program is moved, so that it finds the spoilt copy beside itself."""
    with tempfile.TemporaryDirectory() as tmp:
        os.mkdir(os.path.join(tmp, "bin"))
        program = shutil.copy(PROGRAM, os.path.join(tmp, "bin/halod"))
        tiny = shutil.copytree(MODEL, os.path.join(tmp, "share/halod/models/halo-tiny"))
        weights = os.path.join(tiny, "model.safetensors")
        with open(weights, "rb") as f:
            sound = f.read()
        first = 8 + struct.unpack("<Q", sound[:8])[0]
        draw = random.Random(11)
        for _ in range(1 if SHORT else 4):
            at = draw.randrange(first, len(sound) - SPOILT)
            spoil(weights, at, draw.randbytes(SPOILT))
            refused(t, "random bytes from %d on" % at, ["--backend", "cpu"],
                    program=program)
            spoil(weights, at, sound[at:at + SPOILT])
        spoil(weights, first, draw.randbytes(SPOILT))
        test_warn(t, program)


def test_warn(t, program):
    d = Halod(program=program, self_check="warn")
    t.equal(d.get("/health").json["self_check"]["result"], "failed",
            "warn: /health says that it failed")
    t.equal(d.metrics()['self_check{result="failed"}'], 1, "and a metric")
    d.wait_log("the self-check failed")
    t.equal(d.chat(max_tokens=1).status, 200, "but it serves")
    t.equal(d.stop(), 0, "and ends")


def test_not_made(t):
    d = Halod(self_check="no")
    t.equal(d.get("/health").json["self_check"]["result"], "off", "self_check = off")
    d.stop()
    with tempfile.TemporaryDirectory() as tmp:
        program = shutil.copy(PROGRAM, os.path.join(tmp, "halod"))
        tiny = shutil.copytree(MODEL, os.path.join(tmp, "models/halo-tiny"))
        path = os.path.join(tiny, "reference.json")
        with open(path) as f:
            ref = json.load(f)
        with open(path, "w") as f:
            json.dump({**ref, "cases": ref["cases"][:3]}, f)
        d = Halod(program=program, self_check="yes")
        t.equal(d.get("/health").json["self_check"]["result"], "skipped",
                "without a reference no self-check")
        d.wait_log("no self-check: .*lacks the cases")
        d.stop()


def main():
    t = Tap()
    try:
        for test in (test_sound, test_hip_faults, test_weights, test_not_made):
            test(t)
    except Exception:
        t.ok(False, "no exception", traceback.format_exc())
    t.done()


main()
