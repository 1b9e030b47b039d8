#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each function of the HIP runtime fails, at each of its calls: an answer is the right one, or
the end is a sentence. What only saves time (graphs, events, what describes the device) is done
without.

On the runtime of tests/hip-on-cpu, whose HIP_CPU_FAULT=call:NAME:N lets a call fail. Of the
functions that a run calls often, the first calls are tried, the last ones, and some between."""
import os
import re
import struct
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

from tap import BUILD, CHECK, FIBERS, SRC, done, eq, ok

MODEL = os.path.join(SRC, "tests/golden/models/qwen3-bf16")
SHORT = "short" in CHECK  # under a sanitizer
FIRST, BETWEEN, LAST = (1, 0, 1) if SHORT else (12, 12, 4)
# Without these halod goes on, whichever of their calls fail.
CONVENIENCES = {"hipDeviceGetName", "hipDeviceGetAttribute",
                "hipDeviceGetPCIBusId", "hipSetDeviceFlags", "hipDeviceTotalMem",
                "hipMemGetInfo", "hipFree",
                "hipHostFree", "hipStreamDestroy", "hipEventCreateWithFlags",
                "hipEventDestroy", "hipEventRecord", "hipEventSynchronize",
                "hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiate",
                "hipGraphDestroy", "hipGraphExecDestroy", "hipModuleUnload"}
# Those of hip_api.def that answering does not call. Events separate copies of more than 16 MiB;
# test_hip.c lets them fail.
NOT_CALLED = {"hipRuntimeGetVersion", "hipGetErrorName", "hipGetDeviceProperties", "hipMemcpy",
              "hipEventRecord", "hipEventSynchronize", "hipEventElapsedTime", "halodHipImage"}


def generate(fault="", calls=None):
    # A long prompt has no other calls, and takes twice as long.
    # What a failing hipFree or hipEventDestroy leaves behind is the stand-in's.
    leaks = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=%d" % (not fault)
    env = dict(os.environ, HIP_CPU_FAULT=fault, ASAN_OPTIONS=leaks)
    if calls:
        env["HIP_CPU_CALLS"] = calls
    p = subprocess.run([os.path.join(BUILD, "haloctl"), "generate", "--model", MODEL, "--backend",
                        "hip", "--hip-library", os.path.abspath(FIBERS), "--temperature", "0",
                        "--max-tokens", "4", "--ignore-eos", "--quiet", "--raw", "-p", "Hi"],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, timeout=60)
    return p.returncode, p.stdout, p.stderr.decode(errors="replace")


def read_calls(path):
    """{function: calls} of HIP_CPU_CALLS."""
    with open(path, "rb") as f:
        return {name.rstrip(b"\0").decode(): n
                for name, n in struct.iter_unpack("56sQ", f.read()) if name[0]}


def numbers(n):
    """Which of n calls fail, one at a time."""
    some = set(range(1, min(n, FIRST) + 1)) | set(range(max(n - LAST, 0) + 1, n + 1))
    return sorted(some | {1 + (n - 1) * i // BETWEEN for i in range(BETWEEN)})


def is_sentence(code, err):
    lines = [line for line in err.splitlines() if line]
    return (0 < code < 64 and lines and len(lines[-1]) > 20 and "(null)" not in err and
            not lines[-1].endswith("the compute device failed"))


def judge(name, fault, want):
    """None, or what is wrong with this end."""
    code, out, err = generate(fault)
    if code == 0 and out == want:
        return None
    if name in CONVENIENCES:
        return "%s: halod can do without: %d %s" % (fault, code, err)
    if code == 0:
        return "%s: a wrong answer: %s" % (fault, out)
    return None if is_sentence(code, err) else "%s: no sentence: %d %s" % (fault, code, err)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "calls")
        code, want, err = generate(calls=path)
        calls = read_calls(path)
    ok(code == 0 and want, "an answer", err)
    with open(os.path.join(SRC, "src/backend/hip/hip_api.def"), encoding="utf-8") as f:
        rows = set(re.findall(r"^HIP(?:_MAY)?\(.*?, (\w+),", f.read(), re.M))
    eq(sorted(rows - set(calls)), sorted(NOT_CALLED), "each function is called, or is known not to")
    ok(calls["hipGraphLaunch"] >= 2 and calls["hipStreamEndCapture"] >= 1, "with graphs", calls)
    with ThreadPoolExecutor(2) as pool:
        for name, n in sorted(calls.items()):
            faults = ["call:%s:%d" % (name, i) for i in numbers(n)] + ["calls:%s:1" % name]
            wrong = [x for x in pool.map(lambda f, name=name: judge(name, f, want), faults) if x]
            ok(not wrong, "%s: %d of %d calls fail, one at a time, and all of them" % (
                name, len(faults) - 1, n), "\n".join(wrong))
    for name in "hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiate":
        code, out, err = generate("calls:%s:1" % name)
        eq(err.count("from now on each kernel is launched by itself"), 1, name + ": one line")


main()
done()
