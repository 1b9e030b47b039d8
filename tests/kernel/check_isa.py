#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernels as compiled for AMD's chips keep the budgets of isa.tsv.

Reads the code objects that the build made; skips where it made none, as configure says.
What is counted is told by `haloctl kernels report`. The instructions themselves are read
from the disassembly: some must not be there (docs/gpu-compilers.md).
"""
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SRC = os.environ.get("HALOD_SRCDIR", ".")
sys.path.insert(0, os.path.join(SRC, "tests/ctl"))
import tap  # pylint: disable=wrong-import-position
from tap import ok  # pylint: disable=wrong-import-position
BUILD = os.environ.get("HALOD_BUILDDIR", ".")
with open(os.path.join(SRC, "src/backend/hip/gpu_targets.def")) as rows:
    TARGETS = re.findall(r"^GPU_TARGET\((\w+),", rows.read(), re.M)
FLAGS = ("-x hip --cuda-device-only -nogpuinc -nogpulib --no-gpu-bundle-output "
         "-std=c++17 -O3 -munsafe-fp-atomics -ffp-contract=fast "
         "-fno-strict-aliasing").split()


def find_clang():
    for name in ("clang-19", "clang-20", "clang-21", "/opt/rocm/llvm/bin/clang"):
        if shutil.which(name):
            return name
    return None


def find_objdump():
    for name in ("llvm-objdump-19", "llvm-objdump", "llvm-objdump-21",
                 "llvm-objdump-20", "llvm-objdump-18", "/opt/rocm/llvm/bin/llvm-objdump"):
        if shutil.which(name):
            return name
    return None


def compiled(clang, source, target, out, *flags):
    subprocess.run([clang, *FLAGS, *flags, "--offload-arch=" + target, "-I" + SRC,
                    "-o", out, os.path.join(SRC, source)], check=True)
    return out


def report(path, *args):
    p = subprocess.run([os.path.join(BUILD, "haloctl"), "kernels", "report", "--json",
                        "--code", path, *args], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=300)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def budgets(path):
    rows = []
    with open(path) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                pattern, vgprs, lds, waves, must = line.rstrip("\n").split("\t")
                rows.append((pattern, int(vgprs), int(lds), float(waves),
                             [] if must == "-" else must.split(",")))
    return rows


def faults(k, rows):
    """What is wrong with kernel k, in words."""
    row = next((r for r in rows if fnmatch.fnmatchcase(k["kernel"], r[0])), None)
    if not row:
        return ["has no budget"]
    pattern, vgprs, lds, waves, must = row
    bad = []
    if k["scratch_bytes"]:
        bad.append("scratch: %d bytes a lane" % k["scratch_bytes"])
    if k["vgpr_spills"] or k["sgpr_spills"]:
        bad.append("spills %d/%d" % (k["vgpr_spills"], k["sgpr_spills"]))
    if k["wave"] != 32:
        bad.append("wave of %d" % k["wave"])
    if k["vgprs"] > vgprs:
        bad.append("VGPRs: %d, may have %d" % (k["vgprs"], vgprs))
    if k["lds_bytes"] > lds:
        bad.append("LDS: %d bytes, may have %d" % (k["lds_bytes"], lds))
    if k["waves"] < waves:
        bad.append("waves of a SIMD: %g, must have %g" % (k["waves"], waves))
    if "hot" not in k:
        return bad
    hot = k["hot"]
    if k["all"]["scratch"]:
        bad.append("scratch: %d instructions" % k["all"]["scratch"])
    if k["loop_divides"]:
        bad.append("divide: %d exact divisions in loops" % k["loop_divides"])
    if "dot2" in must and not hot["dot2"]:
        bad.append("dot2: none in the hot loop")
    if "matrix" in must and not k["all"]["matrix"]:
        bad.append("matrix: no v_wmma")
    for word in must:
        if word.split("=")[0] == "fast":
            floor = float(word.partition("=")[2] or 1.5)
            if k.get("issue_x", 0) < floor:
                bad.append("slow: its instructions allow %.2f of the memory's rate, not %g"
                           % (k.get("issue_x", 0), floor))
    if ("nt" in must or "nt16" in must) and not hot["nt_bytes"]:
        bad.append("cached: the hot loop has no non-temporal load")
    if "nt16" in must and hot["nt_narrow"]:
        bad.append("narrow: %d non-temporal loads of less than 16 bytes"
                   % hot["nt_narrow"])
    return bad


# What no code object may contain: the name of the rule, and the instruction.
REFUSED = (
    # LLVM before 21 swaps the operands of these without turning the comparison round:
    # what comes out has a scalar first and no vector register second ...
    ("swapped", re.compile(r"\tv_cmpx_(?:lt|le|gt|ge)_\w+ "
                           r"(?!v\d|v\[)[^,]+, (?!v\d|v\[)")),
    # ... or, of the two whose table entry is wrong, anything but a vector register first.
    ("swapped", re.compile(r"\tv_cmpx_(?:le|ge)_u32_e\w+ (?!v\d)")),
    # By an address that may be LDS: waits for LDS too. dialect.h's load_global is told
    # that it is not.
    ("flat", re.compile(r"\tflat_")),
)

# All of these begin so; of a million lines few do.
REFUSED_BEGIN = ("\tv_cmpx_", "\tflat_")


def refused(lines):
    """Of a disassembly: [(rule, kernel, instruction)]."""
    found, kernel = [], None
    for line in lines:
        if line.endswith(">:\n"):
            kernel = line[line.index("<") + 1:-3]
        elif line.startswith(REFUSED_BEGIN):
            found += [(rule, kernel, line.partition("//")[0].strip())
                      for rule, pattern in REFUSED if pattern.match(line)][:1]
    return found


def disassembled(objdump, path):
    p = subprocess.Popen([objdump, "-d", "--no-show-raw-insn", path],
                         stdout=subprocess.PIPE, universal_newlines=True)
    found = refused(p.stdout)
    if p.wait():
        raise RuntimeError("%s: %s failed" % (path, objdump))
    return found


def report_and_refused(path):
    """report(path), and refused() of the disassembly that the build made. None where that is
    empty: there was no disassembler."""
    text = path[:-len("hsaco")] + "dis"
    if not os.path.getsize(text):
        return report(path), None
    with tempfile.TemporaryDirectory() as tmp:
        tool = os.path.join(tmp, "objdump")
        with open(tool, "w") as f:
            f.write("#!/bin/sh\nexec cat '%s'\n" % os.path.abspath(text))
        os.chmod(tool, 0o700)
        reported = report(path, "--objdump", tool)
    with open(text) as lines:
        return reported, refused(lines)


def told(found):
    return "\n".join("%s: %s: %s" % row for row in found)


def check(path, target, rows):
    (code, out, err), found = report_and_refused(path)
    ok(code == 0, target + ": the code object can be read", err)
    kernels = [json.loads(line) for line in out.splitlines()]
    ok(kernels and all(k["arch"] == target for k in kernels), target + ": has kernels",
       err)
    if "no loops are told" in err:
        print("# no disassembler: loops are not checked")
    used = set()
    for k in kernels:
        used.update(r[0] for r in rows if fnmatch.fnmatchcase(k["kernel"], r[0]))
        bad = faults(k, rows)
        if bad:
            ok(False, "%s: %s" % (target, k["kernel"]), "\n".join(bad))
    ok(True, "%s: %d kernels were looked at" % (target, len(kernels)))
    ok(used == {r[0] for r in rows}, target + ": every row of isa.tsv is of a kernel",
       {r[0] for r in rows} - used)
    if found is not None:
        ok(not found, target + ": no instruction that is refused", told(found))


def version(clang):
    p = subprocess.run([clang, "--version"], stdout=subprocess.PIPE, check=True)
    return int(re.search(r"version (\d+)", p.stdout.decode()).group(1))


def check_compiler(clang, tmp):
    """The rule for swapped operands: on what a compiler with the fault makes of a loop,
    and on single lines."""
    if find_objdump():
        path = compiled(clang, "tests/kernel/isa_swapped.hip", TARGETS[0],
                        os.path.join(tmp, "swapped.hsaco"))
        found = disassembled(find_objdump(), path)
        if version(clang) < 21:
            ok([row[:2] for row in found] == [("swapped", "swapped_kernel")],
               "refused: what this compiler makes of isa_swapped.hip", told(found))
        else:
            ok(not found, "this compiler compiles isa_swapped.hip rightly", told(found))
    # Packages are built without this test: what links the shipped object refuses it, too.
    unit = compiled(clang, "tests/kernel/isa_swapped.hip", TARGETS[0],
                    os.path.join(tmp, "swapped.s"), "-S")
    p = subprocess.run([os.path.join(SRC, "kernels/link-units"), clang, TARGETS[0],
                        os.path.join(tmp, "linked.hsaco"), unit], stderr=subprocess.PIPE)
    ok((p.returncode != 0 and b"v_cmpx_" in p.stderr) == (version(clang) < 21),
       "the build refuses it where the compiler has the fault", p.stderr.decode())
    for line, is_bad in (("v_cmpx_ge_u32_e64 s4, 2", True),
                         ("v_cmpx_gt_i32_e64 s4, s5", True),
                         ("v_cmpx_lt_f32_e64 |s4|, 0x42", True),
                         ("v_cmpx_le_u32_e32 s4, v1", True),
                         ("v_cmpx_ge_u32_e32 0x180, v1", True),
                         ("v_cmpx_gt_u32_e32 0x180, v1", False),
                         ("v_cmpx_gt_u64_e32 s[4:5], v[2:3]", False),
                         ("v_cmpx_ge_u32_e32 v2, v1", False),
                         ("v_cmpx_lt_i32_e64 v2, s4", False),
                         ("v_cmpx_eq_u32_e64 s2, 1", False),
                         ("v_cmp_ge_u32_e64 s2, s3, 1", False),
                         ("flat_load_b128 v[4:7], v[0:1]", True),
                         ("flat_store_b32 v[0:1], v2", True),
                         ("global_load_b128 v[4:7], v[0:1], off", False)):
        found = refused(["0 <k>:\n", "\t%s // 0: 0\n" % line])
        ok(bool(found) == is_bad, "%s: %s" % ("refused" if is_bad else "allowed", line),
           told(found))


def check_refusals(clang, tmp):
    """The gate shuts: on each kind of fault, and on files that are none."""
    rows = [("*", 96, 1024, 12, ["nt16"])]
    path = compiled(clang, "tests/kernel/isa_bad.hip", TARGETS[0],
                    os.path.join(tmp, "bad.hsaco"))
    if find_objdump():
        found = disassembled(find_objdump(), path)
        ok([row[:2] for row in found] == [("flat", "bad_flat_kernel")],
           "refused: a load by a pointer that was loaded", told(found))
    code, out, err = report(path)
    kernels = {k["kernel"]: k for k in map(json.loads, out.splitlines())}
    for name in ("scratch", "divide", "narrow", "cached", "lds"):
        bad = faults(kernels["bad_%s_kernel" % name], rows)
        ok(any(b.lower().startswith(name) for b in bad), "refused: " + name, bad)
    ok(not faults(kernels["good_kernel"], [("*", 96, 1024, 12, ["nt16", "dot2"])]),
       "a good kernel is not refused", faults(kernels["good_kernel"], rows))
    ok(faults(kernels["good_kernel"], [("*", 4, 0, 12, ["matrix"])]) != [],
       "registers and v_wmma are looked at")
    ok(not faults(kernels["good_kernel"], [("*", 96, 1024, 12, ["fast"])]) and
       faults(kernels["good_kernel"], [("*", 96, 1024, 12, ["fast=1000"])]) != [],
       "rates are looked at", kernels["good_kernel"])
    ok(kernels["good_kernel"]["kernarg_bytes"] == 28, "arguments are read",
       kernels["good_kernel"])
    with open(path, "rb") as f:
        whole = f.read()
    for n in list(range(0, 700, 13)) + list(range(700, len(whole), 997)):
        with open(path, "wb") as f:
            f.write(whole[:n])
        code, out, err = report(path, "--objdump", "/bin/false")
        if code not in (0, 1, 2) or (code == 0 and not out):
            ok(False, "a file cut after %d bytes" % n, (code, err))
    for at in range(64, len(whole), 211):
        with open(path, "wb") as f:
            f.write(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1:])
        code, out, err = report(path, "--objdump", "/bin/false")
        if code not in (0, 1, 2):
            ok(False, "a file damaged at %d" % at, (code, err))
    ok(report("/dev/null")[0] == 2, "an empty file is refused")


def main():
    rows = budgets(os.path.join(SRC, "tests/kernel/isa.tsv"))
    made = {t: os.path.join(BUILD, "kernels", t + ".hsaco") for t in TARGETS}
    made = {t: path for t, path in made.items() if os.path.exists(path)}
    if not made:
        print("1..0 # SKIP there are no code objects for AMD GPUs")
        return 0
    for target, path in made.items():
        check(path, target, rows)
    clang = find_clang()
    if clang:
        with tempfile.TemporaryDirectory() as tmp:
            check_refusals(clang, tmp)
            check_compiler(clang, tmp)
    print("1..%d" % tap.count)
    return tap.failed != 0


sys.exit(main())
