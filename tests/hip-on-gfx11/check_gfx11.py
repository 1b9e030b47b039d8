#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The code objects of AMD's chips, executed instruction by instruction.

For each chip: run_fibers and run_forms, and an answer of halo-tiny; for the first chip also
haloctl verify of the golden models; all on libhip_gfx11.so. HALOD_GFX11_WHOLE=1: also all of
run_shapes, both orders of waves, and every model on each chip. At the end it prints what was
executed (coverage.py), of which there must be so much. Skips where the build made no code
objects.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

SRC = os.environ.get("HALOD_SRCDIR", ".")
BUILD = os.environ.get("HALOD_BUILDDIR", ".")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SRC, "tests/hip-on-gfx11"))
import coverage as cover  # pylint: disable=wrong-import-position

LIBRARY = os.path.join(BUILD, "tests/hip-on-gfx11/libhip_gfx11.so")
WHOLE = bool(os.environ.get("HALOD_GFX11_WHOLE"))
GOLDEN = os.path.join(SRC, "tests/golden/models")
# Percent of kernels and of instructions of each code object that are to be executed.
FLOOR_KERNELS, FLOOR_INSTRUCTIONS = 99, 90
# Golden models whose log-probabilities on HIP are off by more than verify allows, on fibers
# as here: that is no matter of the machine code.
NOT_ON_HIP = {"qwen35"}
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


def answer(target, coverage):
    """Six tokens of halo-tiny, as the CPU backend gives them."""
    begin = [os.path.join(BUILD, "haloctl"), "generate", "--model",
             os.path.join(SRC, "models/halo-tiny"), "-p", "What is 2+2?", "-n", "6",
             "--temperature", "0", "--backend"]
    want = run(target, coverage, begin + ["cpu"])
    got = run(target, coverage, begin + ["hip", "--hip-library", LIBRARY])
    text = [out.partition("\nload ")[0] for _, out, _ in (want, got)]
    ok(want[0] == got[0] == 0 and text[0] == text[1] and len(text[0]) > 10, target + ": halo-tiny answers as on the CPU",
       (want, got))


def check(target, coverage, has_models):
    # Elsewhere than whole: each case once, with the order of the waves turned round.
    cases(target, coverage, "run_fibers", **({} if WHOLE else {"HALOD_SHAPES_EVERY": "8"}))
    cases(target, coverage, "run_forms")
    if WHOLE:
        cases(target, coverage, "run_shapes")
    answer(target, coverage)
    for name in sorted(os.listdir(GOLDEN)) if has_models or WHOLE else ():
        if name not in NOT_ON_HIP:
            verify(target, coverage, name, os.path.join(GOLDEN, name))
    if WHOLE:
        verify(target, coverage, "halo-tiny", os.path.join(SRC, "models/halo-tiny"))


def check_coverage(path):
    for chip, kernels in sorted(cover.read([path]).items()):
        share = cover.shares(kernels)
        ok(share[0] >= FLOOR_KERNELS and share[1] >= FLOOR_INSTRUCTIONS,
           "%s: %.1f %% of the kernels and %.1f %% of the instructions executed" % (
               chip, share[0], share[1]),
           "at least %d and %d" % (FLOOR_KERNELS, FLOOR_INSTRUCTIONS))


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
            check(target, coverage, target == there[0])
        done = subprocess.run([sys.executable, cover.__file__, coverage],
                              stdout=subprocess.PIPE, text=True, check=False)
        for line in done.stdout.splitlines():
            print("# " + line)
        check_coverage(coverage)
    print("1..%d" % count)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
