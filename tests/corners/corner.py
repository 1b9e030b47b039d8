# SPDX-License-Identifier: Apache-2.0
"""Is a file answered as it should be, or refused in one sentence?"""
import json
import os
import subprocess
import sys

import mini as m
from tap import BUILD, CHECK

EXACT, FAST = 2e-4, 0.15
SHORT = "short" in CHECK


def haloctl(command, *args, **environment):
    p = subprocess.run([os.path.join(BUILD, "haloctl"), command, *args], capture_output=True,
                       timeout=120, env={**os.environ, **environment})
    return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")


def put(folder, files):
    for name, raw in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(raw)


def deviates(path, reference, bound, *options, **environment):
    """The largest difference of a log-probability, and what is wrong, or ""."""
    code, out, err = haloctl("verify", "-m", path, "-r", reference, "-j", "--max-delta",
                             str(bound), *options, **environment)
    found = json.loads(out) if code in (0, 1) and out else {}
    return found.get("max_delta"), "" if code == 0 else "%s: status %d, %s %s" % (
        " ".join(options), code, found.get("max_delta"), err)


def answers(path, reference):
    for bound, options in ((EXACT, ["--exact"]),) if SHORT else ((EXACT, ["--exact"]), (FAST, [])):
        why = deviates(path, reference, bound, *options)[1]
        if why:
            return why
    code, out, err = haloctl("tokenize", "-m", path, "-p", m.TEXT)
    return "" if out.split() == [str(i) for i in m.IDS] else "ids: " + out + err


def refused(path, reference, words):
    code, out, err = haloctl("verify", "-m", path, "-r", reference)
    if code != 2 or out or err.count("\n") != 1 or not err.endswith("\n"):
        return "status %d, %s%s" % (code, out, err)
    return "" if words in err else "without %r: %s" % (words, err)


def python_with(*modules):
    """A Python that has these, or None."""
    clients = os.environ.get("HALOD_CLIENTS", os.path.join(BUILD, "clients"))
    for python in (sys.executable, os.path.join(clients, "venv/bin/python")):
        if os.path.exists(python) and subprocess.run(
                [python, "-c", "import " + ", ".join(modules)],
                stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None
