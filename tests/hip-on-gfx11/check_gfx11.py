#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The code objects of AMD's chips, executed instruction by instruction.

For each chip, on libhip_gfx11.so: run_fibers, run_forms, and haloctl verify of halo-tiny, also
with its keys and values in int8, and of the golden models in MODELS; one case in SILICON_EVERY and
some models also with the sums of silicon (HALOD_GFX11=adder=silicon). A model runs a prompt of
at least seventeen tokens, which takes the kernels of prompts, and two steps of decode. At the
end it prints what was executed (coverage.py), of which there must be so much. Skips where the
build made no code objects.

The first chip is executed so. Of the others, which have the same sources and nearly the same
instructions, one case in OTHERS_EVERY is, and one golden model in OTHERS_EVERY.
HALOD_CHECK=all: each chip like the first, and all of run_shapes, both orders of waves, and
all of each golden model's reference. Arguments are chips: these alone.
"""
import json
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
sys.path.insert(0, os.path.join(SRC, "tests/ctl"))
import tap  # pylint: disable=wrong-import-position
from tap import ok  # pylint: disable=wrong-import-position
import coverage as cover  # pylint: disable=wrong-import-position

LIBRARY = os.path.join(BUILD, "tests/hip-on-gfx11/libhip_gfx11.so")
WHOLE = "all" in os.environ.get("HALOD_CHECK", "").split(",")
GOLDEN = os.path.join(SRC, "tests/golden/models")
TINY = os.path.join(SRC, "models/halo-tiny")
# Percent of kernels and of instructions of each code object that are to be executed.
FLOOR_KERNELS, FLOOR_INSTRUCTIONS = 99, 88
OTHERS_EVERY = 2  # run_forms calls most kernels in three ways, one after the other
OTHERS_KERNELS, OTHERS_INSTRUCTIONS = 93, 70
# Decode steps of a model, and tokens from which a prompt takes the kernels of prompts.
STEPS, PROMPT = 2, 17
# Each kernel that a golden model launches is launched by one of these or by halo-tiny, which
# HALOD_CHECK=all holds. The others launch the same in other orders, as on fibers.
MODELS = ("deepseekv4-fp8", "falconh1", "gemma4", "glm4moelite", "nemotronhsuper", "qwen3-bf16",
          "qwen3-gptq", "qwen3-hqq", "qwen3-llmint8", "qwen3-modelopt", "qwen3-nf4", "qwen3-nvfp4",
          "qwen35moe", "qwen3moe-ct-asym", "qwen3moe-ct-mixed", "qwen4exp")
# With the adder that silicon has, beside halo-tiny.
SILICON = ("qwen35moe", "qwen3-nvfp4")
SILICON_EVERY = 32
# Models whose log-probabilities on HIP may be off by more than verify allows: on fibers as
# here, so that is no matter of the machine code (docs/gpu.md, "What runs where").
MAX_DELTA = {"qwen35": "0.4"}
# The C library keeps freed memory: the tests' large blocks come and go.
KEEPS_MEMORY = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296"


def run(target, coverage, command, check="", adder=""):
    more = ",adder=" + adder if adder else ""
    env = dict(os.environ, HALOD_GFX11="target=%s,coverage=%s%s" % (target, coverage, more),
               HALOD_CHECK=check, HALOD_TEST_HIP_LIBRARY=LIBRARY, GLIBC_TUNABLES=KEEPS_MEMORY)
    begin = time.monotonic()
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout, time.monotonic() - begin


def cases(target, coverage, program, which, adder=""):
    """A TAP program: good where it is whole and says no "not ok"."""
    code, out, seconds = run(target, coverage, [os.path.join(BUILD, "tests/kernel", program)],
                             which, adder)
    n = len(re.findall(r"^ok ", out, re.M))
    bad = re.findall(r"^not ok .*|^hip-on-gfx11: .*", out, re.M)
    ok(code == 0 and n and not bad and re.search(r"^1\.\.%d$" % n, out, re.M),
       "%s: %s: %d cases%s" % (target, program, n, " " + adder if adder else ""),
       "\n".join(bad) or out[-2000:])
    print("# %s: %s: %.0f s" % (target, program, seconds))


def shorten(path, folder):
    """Of a model's reference: its shortest prompt that is long enough, and the first steps."""
    with open(os.path.join(path, "reference.json"), encoding="utf-8") as f:
        reference = json.load(f)
    case = min((c for c in reference["cases"] if len(c["prompt_ids"]) >= PROMPT),
               key=lambda c: len(c["prompt_ids"]))
    case["steps"] = case["steps"][:STEPS]
    case["continuation_ids"] = case["continuation_ids"][:STEPS]
    case.pop("text", None)
    out = os.path.join(folder, "reference.json")
    with open(out, "w", encoding="utf-8") as f:
        json.dump(dict(reference, cases=[case]), f)
    return out


def verify(target, coverage, path, *options, adder=""):
    """haloctl verify of a model. Returns how long it took."""
    name = os.path.basename(path)
    with tempfile.TemporaryDirectory() as folder:
        more = [] if WHOLE else ["--reference", shorten(path, folder)]
        more += ["--max-delta", MAX_DELTA[name]] if name in MAX_DELTA else []
        code, out, seconds = run(target, coverage, [
            os.path.join(BUILD, "haloctl"), "verify", "--model", path, "--backend", "hip",
            "--hip-library", LIBRARY, *more, *options], adder=adder)
    ok(code == 0 and "hip-on-gfx11:" not in out,
       "%s: verify %s" % (target, " ".join([name, *options, adder])), out[-2000:])
    return seconds


def launched(path):
    """Kernels launched by what wrote this file of coverage."""
    return {name for kernels in cover.read([path]).values()
            for name, kernel in kernels.items() if kernel[0]}


def check_models(target, coverage, every):
    """Each model of MODELS, or one in so many; where time does not matter all there are, which must launch no
    other kernel."""
    seconds, own, others = 0, set(), set()
    for name in sorted(os.listdir(GOLDEN)) if WHOLE else MODELS[::every]:
        with tempfile.TemporaryDirectory() as folder:
            part = os.path.join(folder, "coverage")
            seconds += verify(target, part, os.path.join(GOLDEN, name))
            (own if name in MODELS else others).update(launched(part))
            with open(coverage, "a") as to, open(part) as lines:
                to.writelines(lines)
    if WHOLE:
        own |= launched(coverage + ".tiny")
        ok(others <= own, "%s: no other model launches a kernel that MODELS do not" % target,
           others - own)
    return seconds


def check(target, coverage, every):
    # Elsewhere than whole: each case once, with the order of the waves turned round.
    few = "" if WHOLE else "short,"
    cases(target, coverage, "run_fibers", "%severy=%d" % (few, every))
    cases(target, coverage, "run_forms", "every=%d" % every)
    if WHOLE:
        cases(target, coverage, "run_shapes", "every=1")
    tiny = coverage + ".tiny"
    seconds = verify(target, tiny, TINY) + verify(target, tiny, TINY, "--kv-type", "int8")
    if every == 1:  # with bounds for sums that are cut (kernel_compare)
        cases(target, os.devnull, "run_fibers",
              "short,every=%d" % (1 if WHOLE else SILICON_EVERY), "silicon")
    for path in (TINY, *(os.path.join(GOLDEN, name) for name in SILICON)) if every == 1 else ():
        seconds += verify(target, tiny, path, adder="silicon")
    seconds += check_models(target, coverage, every)
    with open(coverage, "a") as to, open(tiny) as lines:
        to.writelines(lines)
    os.unlink(tiny)
    print("# %s: verify of models: %.0f s" % (target, seconds))


def check_coverage(paths, every):
    for chip, kernels in sorted(cover.read(paths).items()):
        share = cover.shares(kernels)
        floor = ((FLOOR_KERNELS, FLOOR_INSTRUCTIONS) if every[chip] == 1 else
                 (OTHERS_KERNELS, OTHERS_INSTRUCTIONS))
        ok(share[0] >= floor[0] and share[1] >= floor[1],
           "%s: %.1f %% of the kernels and %.1f %% of the instructions executed" % (
               chip, share[0], share[1]), "at least %d and %d" % floor)


def main():
    with open(os.path.join(SRC, "src/backend/hip/gpu_targets.def")) as rows:
        targets = re.findall(r"^GPU_TARGET\((\w+),", rows.read(), re.M)
    every = {t: 1 if WHOLE or t == targets[0] else OTHERS_EVERY for t in targets}
    there = [t for t in targets if t in (sys.argv[1:] or targets) and
             os.path.exists(os.path.join(BUILD, "kernels", t + ".hsaco"))]
    if not there:
        print("1..0 # SKIP the build made no code objects")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        kept = re.search("coverage=([^,]+)", os.environ.get("HALOD_GFX11", ""))
        begin = kept[1] if kept else os.path.join(folder, "coverage")
        coverage = [begin + "." + target for target in there]
        for target, path in zip(there, coverage):
            check(target, path, every[target])
        done = subprocess.run([sys.executable, cover.__file__, *coverage],
                              stdout=subprocess.PIPE, text=True, check=False)
        for line in done.stdout.splitlines():
            print("# " + line)
        check_coverage(coverage, every)
    print("1..%d" % tap.count)
    return tap.failed != 0


if __name__ == "__main__":
    sys.exit(main())
