#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands that README.md and docs/ show, as they are shown.

A command is a line that begins with "    $ ", and the lines that a "\\" joins to it. Each
must match a row of COMMANDS, and each row must match a command, so a new command cannot
be shown without a decision here. A row says what to do:

  RUN   run it in the build folder; its exit status must be 0
  GPU   the same, on the HIP runtime for the CPU
  ELSE  another test runs it, or nothing here can; the row says which or why

The port 8080 becomes the port of a daemon that this test starts, and files of the
installed system become files of the build.
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests", "http"))
from halod import BUILDDIR, CHECK, FIBERS, SRCDIR, Halod, Tap

RUN, GPU, ELSE = "run", "gpu", "else"
COMMANDS = [
    (r"\./quickstart\.sh$", ELSE, "test.sh runs it"),
    (r"\./test\.sh", ELSE, "it runs this test"),
    (r"autoreconf -fi && mkdir", ELSE, "quickstart.sh runs it"),
    (r"mkdir (-p )?build-(fuzz|cov)|\.\./configure CC=clang|make fuzz|"
     r"cd \.\. && (python3 )?tests/fuzz|build-fuzz/tests/fuzz",
     ELSE, "test.sh builds and runs the fuzzers"),
    (r"\./halod$", ELSE, "this test starts one, on a port of its own"),
    (r"cd build && \.\./configure --prefix=/usr", ELSE, "make distcheck installs"),
    (r"sudo haloctl pull ", ELSE, "tests/ctl/test_pull.py pulls from a hub of its own"),
    (r"cd /usr/local && tar -tf ", ELSE, "tests/packages removes so what it unpacked"),
    (r"tar -xf \S+ && \S+/conf/packages/halod-video ", ELSE, "tests/packages makes the package so"),
    (r"(node )?tests/bench/schema_\w+\.(py|mjs)|cd build && make schema-suite", ELSE,
     "needs packages with real schemas, or minutes of a model"),
    (r"cd build && make smollm2-long", ELSE, "minutes; a part is tests/http/test_smollm2.py"),
    (r"cd build && make soak", ELSE, "an hour; what happens there has tests of its own"),
    (r"export HALOD_SRCDIR|tests/fuzz/dear_bodies\.py", ELSE, "minutes, and figures of time; "
     "tests/http/test_dear.py has their bodies"),
    (r"podman ", ELSE, "needs podman and its images"),
    (r"pip install 'lm-eval|lm_eval ", ELSE, "needs the network and a data set"),
    (r"(echo .* \| )?sudo |journalctl ", ELSE, "needs systemd and root"),
    (r"curl -N .*chat/completions", RUN, ""),
    (r"curl -s .*/metrics", RUN, ""),
    (r"\./haloctl generate .*--backend hip", GPU, ""),
    (r"\./haloctl (generate|verify|inspect) --model \.\./models/halo-tiny", RUN, ""),
    (r"\./haloctl bench model --model \.\./models/halo-tiny -p", RUN, ""),
    (r"echo .* \| \./haloctl chat --model \.\./models/halo-tiny", RUN, ""),
    (r"\./haloctl bench serve", RUN, ""),
    (r"\./haloctl bench agents", ELSE, "tests/ctl/test_bench_agents.py replays all traces"),
    (r"tests/bench/adapters\.py", ELSE, "it makes an adapter for a shape of some minutes"),
    (r"curl \S+/v1/audio/transcriptions", ELSE, "it needs a model that hears: test_sounds.py"),
    (r"haloctl verify --answers", RUN, ""),
    (r"halod -c /etc/halod/halod\.conf --port", ELSE, "as this test starts one"),
    (r"halod --help", RUN, ""),
    (r"halod --check-config", RUN, ""),
    (r"\./halod --embedding-model Qwen/", ELSE, "tests/http/test_readers.py serves such models"),
    (r"\./halod --model Qwen/\S+ --transcription-model Qwen/", ELSE,
     "tests/http/test_sounds.py serves such models"),
    (r"(\./)?haloctl doctor$", ELSE, "tests/ctl/test_doctor.py runs it; a machine may be bad"),
    (r"\./haloctl devices", ELSE, "ends with 1 where there is no GPU"),
    (r"HALOD_SRCDIR=\. .* tests/http/pictures\.py docs", ELSE, "minutes; it writes to docs/"),
    (r"HALOD_CHECK=every=12 \.\./tests/hip-on-cuda/sanitize ", ELSE, "needs an NVIDIA card and its tools"),
    (r"\./haloctl synth --shape qwen3-(30b-a3b|8b) |\./haloctl kernels predict", ELSE,
     "a minute for this shape; tests/kernel/check_counts.py predicts a smaller one"),
    (r"\./haloctl first-run ", ELSE, "tests/ctl/test_first_run.py runs its steps"),
    (r"\./haloctl kernels replay ", ELSE, "tests/ctl/test_kernels.py replays what it recorded"),
]
# Under a sanitizer these repeat what tests/ctl/test_model.py and test_bench_serve.py run.
LONG = r"\./haloctl (verify --model|bench model|bench serve)"
SHORT = "short" in CHECK


def shown():
    """(file, command) of every command in the documents, in order."""
    files = [os.path.join(SRCDIR, "README.md")]
    for path in files + sorted(glob.glob(os.path.join(SRCDIR, "docs", "*.md"))):
        command = None
        for line in open(path, encoding="utf-8"):
            line = line.rstrip("\n")
            if command is None and line.startswith("    $ "):
                command = line[6:]
            elif command is not None:
                command += " " + line.strip()
            if command is not None and command.endswith("\\"):
                command = command[:-1].rstrip()
            elif command is not None:
                yield os.path.relpath(path, SRCDIR), re.sub(r"\s+#\s.*$", "", command)
                command = None


def row_of(command):
    for i, (pattern, _, _) in enumerate(COMMANDS):
        if re.match(pattern, command):
            return i
    return None


def here(command, port, library):
    """The command with the places of this build."""
    for old, new in (("127.0.0.1:8080", "127.0.0.1:%d" % port),
                     ("../models/", os.path.join(os.path.abspath(SRCDIR), "models/")),
                     (" models/", " " + os.path.join(os.path.abspath(SRCDIR), "models/")),
                     ("/etc/halod/halod.conf", os.path.join(os.path.abspath(SRCDIR),
                                                            "conf/halod.conf"))):
        command = command.replace(old, new)
    command = re.sub(r"^(halod|haloctl) ", r"./\1 ", command)
    if "kernels record" in command:  # fibers are slow: a model of two layers in its place
        command = command.replace("/models/halo-tiny", "/tests/golden/models/qwen3-bf16")
    if library and "--hip-library" not in command:
        command += " --hip-library " + shlex.quote(library)
    return command


def run_example(t, port):
    """README's program, by the client that test.sh installs."""
    text = open(os.path.join(SRCDIR, "README.md"), encoding="utf-8").read()
    code = re.search(r"((?:    .*\n)*    from openai.*\n(?:    .*\n)*)", text).group(1)
    code = re.sub(r"(?m)^    ", "", code).replace(":8080", ":%d" % port)
    clients = os.environ.get("HALOD_CLIENTS", os.path.join(BUILDDIR, "clients"))
    python = os.path.join(clients, "venv", "bin", "python")
    if not os.path.exists(python):
        t.ok(True, "README.md: the example in Python # SKIP no client in %s" % clients)
        return
    p = subprocess.run([python, "-c", code], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=300)
    t.ok(p.returncode == 0 and b"Paris" in p.stdout, "README.md: the example in Python",
         p.stdout.decode(errors="replace"))


def main():
    t = Tap()
    build = os.path.abspath(BUILDDIR)
    library = os.path.abspath(FIBERS)
    work = tempfile.mkdtemp(prefix="halod-commands-")
    # As the build folder, but what the commands write stays out of it.
    for name in ("halod", "haloctl", "haloctl-kernels", "tests", "kernels"):
        if os.path.exists(os.path.join(build, name)):
            os.symlink(os.path.join(build, name), os.path.join(work, name))
    d = Halod()
    seen = set()
    try:
        for file, command in shown():
            i = row_of(command)
            if not t.ok(i is not None, "%s: %s: this test knows the command" %
                        (file, command[:80])):
                continue
            seen.add(i)
            _, what, why = COMMANDS[i]
            if what == ELSE:
                continue
            if SHORT and re.match(LONG, command):
                t.ok(True, "%s: %s # SKIP the plain build runs it" % (file, command[:80]))
                continue
            text = here(command, d.port, library if what == GPU else None)
            p = subprocess.run(["bash", "-o", "pipefail", "-c", text], cwd=work,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, timeout=600)
            t.ok(p.returncode == 0, "%s: %s" % (file, command[:80]),
                 "exit %d\n%s" % (p.returncode, p.stdout.decode(errors="replace")[-2000:]))
        run_example(t, d.port)
        for i, (pattern, _, _) in enumerate(COMMANDS):
            t.ok(i in seen, "a document shows %s" % pattern)
        t.equal(d.stop(), 0, "halod ends well")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    t.done()


main()
