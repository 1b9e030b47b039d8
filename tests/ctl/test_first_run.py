#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl first-run: its steps and its report, on a HIP runtime without a GPU."""
import os
import re
import subprocess
import tempfile

from tap import BUILD, CHECK, FIBERS, SRC, done, eq, ok

FAILS = "call:hipModuleLaunchKernel:1"  # the runtime of tests/hip-on-cpu lets this call fail


def first_run(folder, *args, fault=""):
    """Exit status, {step: (state, note)} as printed, the report's text."""
    report = os.path.join(folder, "report.txt")
    if os.path.exists(report):
        os.unlink(report)
    p = subprocess.run([os.path.join(BUILD, "haloctl"), "first-run", "--out", report, *args],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                       env=dict(os.environ, HIP_CPU_FAULT=fault))
    text = open(report).read() if os.path.exists(report) else ""
    rows = re.findall(r"^(ok|FAILED|left out) +(\w+) +(.*)$", p.stdout.decode(), re.M)
    for state, step, note in rows:
        ok(re.search(r"^%s +%s +%s$" % (state, step, re.escape(note)), text, re.M),
           "the report has the line of " + step, text)
    return p.returncode, {step: (state, note) for state, step, note in rows}, text, p.stderr.decode()


def healthy(folder):
    model = os.path.join(os.path.abspath(SRC), "tests/golden/models/qwen3-bf16")
    code, steps, text, err = first_run(folder, "--quick", "--hip-library", os.path.abspath(FIBERS),
                                       "--steps", "devices,kernels,lasts,launches,speed", "-m", model)
    eq([(s, steps[s][0]) for s in steps],
       [("devices", "ok"), ("kernels", "left out"), ("lasts", "ok"), ("launches", "ok"),
        ("speed", "ok")], "all steps of a sound runtime")
    eq(code, 0, "that is success")
    ok("gfx1151" in steps["devices"][1], "the chip", steps)
    rows = re.findall(r"^tiny +(\S+) +([\d.]+) +([\d.]+) +([\d.]+)$", text, re.M)
    ok(len(rows) >= 4 and "experts" in [r[0] for r in rows] and
       all(abs(float(r[1]) / float(r[2]) / float(r[3]) - 1) < 0.02 for r in rows if float(r[3]) > 1),
       "operations beside their predictions", rows or text)
    times = re.findall(r"^(.*?) +[\d.]+ ms measured, +[\d.]+ \([\d.]+ to [\d.]+\) predicted: "
                       r"(inside|outside)$", text, re.M)
    eq([t[0] for t in times], ["decode behind 8 tokens", "a prompt of 16 tokens"],
       "times beside their predictions")
    ok("$ haloctl bench model --model " in text and "$ haloctl kernels predict" in text,
       "commands as one types them", text)


def broken(folder):
    code, steps, text, err = first_run(folder, "--quick", "--hip-library", "/nonexistent.so",
                                       "--steps", "doctor,devices,verify,lasts,launches,speed")
    eq({s: v[0] for s, v in steps.items()},
       dict.fromkeys(("doctor", "devices", "verify", "lasts", "launches", "speed"), "FAILED"),
       "without a runtime each step fails, and none ends the run")
    eq(code, 1, "that is a failure")
    ok("/nonexistent.so" in text and "docs/gpu.md" in text, "why, and what to do", text)
    code, steps, text, err = first_run(folder, "--hip-library", os.path.abspath(FIBERS), "--steps",
                                       "verify", fault=FAILS)
    eq({s: v[0] for s, v in steps.items()}, {"devices": "ok", "verify": "FAILED"},
       "a kernel that fails; devices runs though nobody asked")
    for text_of in ("--no-graphs", "AMD_SERIALIZE_KERNEL=3 ", "HSA_ENABLE_SDMA=0 ",
                    "kernels record"):
        ok(text_of in text, "the cause is looked for: " + text_of.strip(), text)


def wrong_use(folder):
    code, steps, text, err = first_run(folder, "--steps", "devices,speeds")
    ok(code == 2 and "there is no step speeds" in err and not text, "a step that is none", err)
    code, steps, text, err = first_run(folder, "--out", os.path.join(folder, "no/report"))
    ok(code == 2 and "no/report" in err and not steps, "a report that cannot be written", err)


def main():
    with tempfile.TemporaryDirectory() as folder:
        if "short" in CHECK:
            ok(True, "a sound runtime # SKIP under a sanitizer predictions take minutes")
        elif not os.path.exists(os.path.join(BUILD, "kernels/gfx1151.hsaco")):
            ok(True, "a sound runtime # SKIP the build made no code objects")
        else:
            healthy(folder)
        broken(folder)
        wrong_use(folder)
    done()


main()
