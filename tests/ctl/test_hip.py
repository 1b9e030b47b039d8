#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl on the HIP backend, with the runtime of tests/hip-on-cpu; and what it says
where there is no GPU."""
import json
import os

from tap import BUILD, TINY, done, eq, haloctl, ok

LIBRARY = os.path.join(BUILD, "tests/hip-on-cpu/libhip_cpu.so")
HIP = ["--backend", "hip", "--hip-library", LIBRARY]


def devices():
    code, out, err = haloctl("devices", "--hip-library", LIBRARY, "--json")
    eq(code, 0, "devices")
    v = json.loads(out)
    eq(v["error"], None, "no error")
    eq(len(v["devices"]), 1, "one device")
    d = v["devices"][0]
    eq((d["architecture"], d["compute_units"], d["integrated"], d["kernels"]),
       ("gfx1151", 40, True, True), "what it is")
    code, out, err = haloctl("devices", "--hip-library", LIBRARY)
    ok(code == 0 and b"gfx1151" in out, "as text", out)


def errors():
    code, out, err = haloctl("devices", "--hip-library", "/nonexistent/libhip.so")
    ok(code == 1 and "tried /nonexistent/libhip.so" in err, "no library", err)
    libc = "libc.so.6"
    code, out, err = haloctl("devices", "--hip-library", libc)
    ok(code == 1 and libc + " has no function hipInit" in err, "another library", err)
    if not os.path.exists("/dev/kfd"):
        code, out, err = haloctl("devices")
        ok(code == 1 and "no AMD GPU visible: /dev/kfd is missing" in err, "no GPU", err)
        code, out, err = haloctl("verify", "--model", TINY, "--backend", "hip")
        ok(code == 2 and "/dev/kfd is missing" in err, "never the CPU instead", err)


devices()
errors()
done()
