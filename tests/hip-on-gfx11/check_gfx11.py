#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The code objects of AMD's chips, executed instruction by instruction.

For each chip: run_fibers, one in eight of run_shapes, and haloctl verify of models, all on
libhip_gfx11.so. HALOD_GFX11_WHOLE=1 runs all of run_shapes and more models. At the end it
prints what was executed (coverage.py). Skips where the build made no code objects.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

SRC = os.environ.get("HALOD_SRCDIR", ".")
BUILD = os.environ.get("HALOD_BUILDDIR", ".")
HERE = os.path.join(SRC, "tests/hip-on-gfx11")
LIBRARY = os.path.join(BUILD, "tests/hip-on-gfx11/libhip_gfx11.so")
WHOLE = bool(os.environ.get("HALOD_GFX11_WHOLE"))
GOLDEN = os.path.join(SRC, "tests/golden/models")
# Small, and together of every kind of layer: attention, sinks, MLA, experts, delta net.
MODELS = ["deepseekv3-yarn", "gptoss", "glm4moe-groups", "qwen3next", "qwen3-nvfp4", "gemma3"]
count = 0
failed = 0


def ok(fact, name, detail=""):
    global count, failed
    count += 1
    failed += not fact
    print("%sok %d - %s" % ("" if fact else "not ", count, name))
    for line in str(detail).splitlines()[:40] if not fact else ():
        print("# " + line)
    sys.stdout.flush()


def run(target, coverage, command, **more):
    env = dict(os.environ, HALOD_GFX11_TARGET=target, HALOD_GFX11_COVERAGE=coverage,
               HALOD_TEST_HIP_LIBRARY=LIBRARY, **more)
    begin = time.monotonic()
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout, time.monotonic() - begin


def cases(target, coverage, program, **more):
    """A TAP program: good where it is whole and says no "not ok"."""
    code, out, seconds = run(target, coverage, [os.path.join(BUILD, "tests/kernel", program)],
                             **more)
    n = len(re.findall(r"^ok ", out, re.M))
    bad = re.findall(r"^not ok .*|^hip-on-gfx11: .*", out, re.M)
    ok(code == 0 and n and not bad and re.search(r"^1\.\.%d$" % n, out, re.M),
       "%s: %s: %d cases" % (target, program, n), "\n".join(bad) or out[-2000:])
    print("# %s: %s: %.0f s" % (target, program, seconds))


def verify(target, coverage, name, path, *more):
    code, out, seconds = run(target, coverage, [
        os.path.join(BUILD, "haloctl"), "verify", "--model", path, "--backend", "hip",
        "--hip-library", LIBRARY, *more])
    ok(code == 0 and "hip-on-gfx11:" not in out, "%s: verify %s" % (target, name), out[-2000:])
    print("# %s: verify %s: %.0f s" % (target, name, seconds))


def check(target, coverage):
    # Elsewhere than whole: each case once, with the order of the waves turned round.
    cases(target, coverage, "run_fibers", **({} if WHOLE else {"HALOD_SHAPES_EVERY": "8"}))
    cases(target, coverage, "run_shapes", HALOD_SHAPES_EVERY="1" if WHOLE else "8")
    verify(target, coverage, "halo-tiny", os.path.join(SRC, "models/halo-tiny"))
    for name in MODELS if WHOLE else ():
        verify(target, coverage, name, os.path.join(GOLDEN, name))


def main():
    with open(os.path.join(SRC, "src/backend/hip/gpu_targets.def")) as rows:
        targets = re.findall(r"^GPU_TARGET\((\w+),", rows.read(), re.M)
    there = [t for t in targets
             if os.path.exists(os.path.join(BUILD, "kernels", t + ".hsaco"))]
    if not there:
        print("1..0 # SKIP the build made no code objects")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        coverage = os.environ.get("HALOD_GFX11_COVERAGE") or os.path.join(folder, "coverage")
        for target in there:
            check(target, coverage)
        done = subprocess.run([sys.executable, os.path.join(HERE, "coverage.py"), coverage],
                              stdout=subprocess.PIPE, text=True, check=False)
    for line in done.stdout.splitlines():
        print("# " + line)
    print("1..%d" % count)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
