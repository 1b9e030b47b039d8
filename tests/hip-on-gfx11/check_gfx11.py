#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The code objects of gfx1151 and gfx1100, executed instruction by instruction.

 1. The decoder says of every instruction what llvm-objdump says.
 2. tests/kernel/run_fibers and run_shapes (one shape in eight) pass on the machine code.
 3. halo-tiny gives the answer that the CPU backend gives.
 4. How much of the code was executed is printed, and must not fall below a floor.

Skipped where the build has no code objects. check_gfx11.py --all runs every shape."""
import os
import shutil
import subprocess
import sys
import tempfile

SRC = os.path.abspath(os.environ.get("HALOD_SRCDIR", "."))
BUILD = os.path.abspath(os.environ.get("HALOD_BUILDDIR", "build"))
TARGETS = ("gfx1151", "gfx1100")
LIBRARY = os.path.join(BUILD, "tests/hip-on-gfx11/libhip_gfx11.so")
FLOOR_KERNELS, FLOOR_INSTRUCTIONS = 60, 40  # percent of each code object
count = failed = 0


def ok(fact, name, detail=""):
    global count, failed
    count += 1
    print("%sok %d - %s" % ("" if fact else "not ", count, name))
    if not fact:
        failed += 1
        for line in str(detail).splitlines()[:20]:
            print("# " + line)
    sys.stdout.flush()


def code_of(target):
    return os.path.join(BUILD, "kernels", target + ".hsaco")


def objdump():
    for name in ("llvm-objdump-19", "llvm-objdump"):
        if shutil.which(name):
            return name
    return None


def lines_of_objdump(target):
    """{address: text} of the instructions."""
    p = subprocess.run([objdump(), "-d", "--mcpu=" + target, code_of(target)], check=True,
                       stdout=subprocess.PIPE, universal_newlines=True)
    out = {}
    for line in p.stdout.splitlines():
        text, mark, rest = line.partition("//")
        if line.startswith("\t") and mark:
            out[int(rest.split(":")[0], 16)] = " ".join(text.split())
    return out


def check_decoder(target):
    if not objdump():
        ok(True, target + ": the decoder beside llvm-objdump # SKIP there is none")
        return
    want = lines_of_objdump(target)
    p = subprocess.run([os.path.join(BUILD, "tests/hip-on-gfx11/disassemble"),
                        code_of(target)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       universal_newlines=True)
    n, wrong = 0, []
    for line in p.stdout.splitlines():
        address, _, text = line.partition(": ")
        n += 1
        text = " ".join(text.split())
        if want.get(int(address, 16)) != text:
            wrong.append("%s: %s, llvm-objdump: %s" % (address, text,
                                                       want.get(int(address, 16))))
    # What objdump shows beside the kernels is padding between them.
    here = {int(line.partition(": ")[0], 16) for line in p.stdout.splitlines()}
    left = {text for address, text in want.items() if address not in here}
    wrong += ["not decoded: " + text for text in left - {"s_code_end", "s_nop 0"}]
    ok(p.returncode == 0 and not wrong and n > 100000,
       "%s: %d instructions, as llvm-objdump says" % (target, n),
       "%d of %d differ\n%s" % (len(wrong), n, "\n".join(wrong[:10]) or p.stdout[-300:]))


def environment(target, coverage, **more):
    return dict(os.environ, HALOD_GFX11_TARGET=target, HALOD_BUILDDIR=BUILD,
                HALOD_SRCDIR=SRC, HALOD_GFX11_COVERAGE=coverage,
                HALOD_TEST_HIP_LIBRARY=LIBRARY, **more)


def check_program(target, name, coverage, every):
    env = environment(target, coverage, HALOD_SHAPES_EVERY=str(every))
    p = subprocess.run([os.path.join(BUILD, "tests/kernel", name)], env=env,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       universal_newlines=True)
    lines = p.stdout.splitlines()
    bad = [x for x in lines if x.startswith("not ok")]
    good = len([x for x in lines if x.startswith("ok")])
    ok(p.returncode == 0 and good > 100 and not bad,
       "%s: %s: %d cases on the machine code" % (target, name, good),
       "\n".join(bad[:8] + p.stderr.splitlines()[-8:]))


def check_answer(target, coverage):
    """The first words of halo-tiny's answer."""
    def answer(*args, env=None):
        p = subprocess.run([os.path.join(BUILD, "haloctl"), "generate", "--model",
                            os.path.join(SRC, "models/halo-tiny"), "-p", "What is 2+2?",
                            "-n", "6", "--temperature", "0", *args], env=env,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return p.returncode, p.stdout, p.stderr
    want = answer("--backend", "cpu")
    got = answer("--backend", "hip", "--hip-library", LIBRARY,
                 env=environment(target, coverage))
    ok(got[:2] == want[:2] and want[0] == 0,
       target + ": halo-tiny answers as on the CPU", (want, got))


def check_coverage(target, path):
    """A line of the file: architecture, kernel, launches, first address, a digit an
    instruction. Lines of one kernel are joined."""
    kernels = {}
    with open(path) as f:
        for line in f:
            arch, name, launches, _, digits = line.split()
            if arch == target:
                old = kernels.get(name, (0, "0" * len(digits)))
                kernels[name] = (old[0] + int(launches), "".join(
                    "1" if "1" in pair else "0" for pair in zip(old[1], digits)))
    run = [k for k, v in kernels.items() if v[0]]
    n = sum(len(v[1]) for v in kernels.values())
    reached = sum(v[1].count("1") for v in kernels.values())
    part = 100.0 * len(run) / max(len(kernels), 1), 100.0 * reached / max(n, 1)
    print("# %s: %d of %d kernels (%.1f %%), %d of %d instructions (%.1f %%) executed" % (
        target, len(run), len(kernels), part[0], reached, n, part[1]))
    missing = sorted(set(kernels) - set(run))
    for i in range(0, len(missing), 6):
        print("# not reached: " + " ".join(missing[i:i + 6]))
    ok(part[0] >= FLOOR_KERNELS and part[1] >= FLOOR_INSTRUCTIONS,
       "%s: %d %% of the kernels and %d %% of the instructions at least" % (
           target, FLOOR_KERNELS, FLOOR_INSTRUCTIONS), part)


def main():
    if not all(os.path.exists(code_of(t)) for t in TARGETS) or not os.path.exists(LIBRARY):
        print("1..0 # SKIP there are no code objects for AMD GPUs")
        return 0
    every = 1 if "--all" in sys.argv[1:] else 8
    for target in TARGETS:
        with tempfile.TemporaryDirectory() as tmp:
            coverage = os.path.join(tmp, "coverage")
            check_decoder(target)
            check_program(target, "run_fibers", coverage, every)
            check_program(target, "run_shapes", coverage, every)
            check_answer(target, coverage)
            check_coverage(target, coverage)
    print("1..%d" % count)
    return 1 if failed else 0


sys.exit(main())
