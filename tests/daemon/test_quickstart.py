#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""quickstart.sh with daemons that die: it says when, how, and what they said last. What it
installs with apt-get, dnf and pacman. test.sh runs it with halod itself."""
import os
import shutil
import subprocess
import tempfile

from daemon import PATIENCE, SRCDIR, Tap, free_port

# A daemon that is ready, and dies in its first answer.
MORTAL = """#!/usr/bin/env python3
import http.server, os, signal, sys
class Mortal(http.server.BaseHTTPRequestHandler):
    def log_message(self, *what): pass
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def do_POST(self):
        print("the last word", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGABRT)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Mortal
                       ).serve_forever()
"""

ROWS = [
    ("a signal at its start", "#!/bin/sh\necho the last word >&2\nkill -SEGV $$\n",
     "ended before it was ready, with SIGSEGV"),
    ("a refusal", "#!/bin/sh\necho the last word\nexit 3\n",
     "ended before it was ready, with status 3"),
    ("an end without a fault", "#!/bin/sh\necho the last word\n",
     "ended before it was ready, with status 0"),
    ("no such program", "#!/no/such/program\nthe last word\n",
     "ended before it was ready, with status 12"),
    ("a signal in an answer", MORTAL, "ended in the middle of an answer, with SIGABRT"),
]


def tree(where, program):
    """What quickstart.sh looks at, built already, with another daemon."""
    for name in (".ci", "build", "models"):
        os.mkdir(os.path.join(where, name))
    shutil.copy(os.path.join(SRCDIR, "quickstart.sh"), where)
    for name, text in (("configure", "#!/bin/sh\n"), ("build/Makefile", "all:\n"),
                       (".ci/packages", "BUILD_PACKAGES= GPU_PACKAGES=\ninstall_packages() { :; }\n"),
                       ("build/halod", program)):
        path = os.path.join(where, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o755)


# What each package manager says of a package that is there: nothing, and status 0.
ASKED = {"apt-get": "dpkg-query", "dnf": "rpm", "pacman": "pacman"}
TOOLS = ("sh", "sed", "dirname", "cat", "id", "grep", "env", "tr", "printf")


def on_path(where, manager):
    """A folder with the tools of a machine that has this package manager, and no other. The
    manager writes down how it was called; jansson alone is there already."""
    for name in TOOLS:
        if shutil.which(name):
            os.symlink(shutil.which(name), os.path.join(where, name))
    asked = "case $* in *jansson*) echo 'install ok installed'; exit 0;; esac; exit 1\n"
    done = 'echo %s "$@" >>"$CALLS"\n' % manager
    programs = {manager: done, "sudo": '"$@"\n'}
    if ASKED[manager] == manager:
        programs[manager] = 'case $1 in -Q) %s ;; esac\n%s' % (asked.strip(), done)
    else:
        programs[ASKED[manager]] = asked
    for name, text in programs.items():
        path = os.path.join(where, name)
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)


def packages(t, manager, install):
    with open(os.path.join(SRCDIR, "README.md"), encoding="utf-8") as f:
        readme = f.read()
    with tempfile.TemporaryDirectory() as where:
        on_path(where, manager)
        calls = os.path.join(where, "calls")
        env = {"PATH": where, "CALLS": calls}
        line = subprocess.run(["sh", "./quickstart.sh", "--packages"], cwd=SRCDIR, env=env,
                              capture_output=True, text=True).stdout.strip()
        t.ok("`%s`" % line in readme, manager + ": README.md has the line", line)
        names = line.split(install + " ")[-1].split()
        t.ok(len(names) > 15 and any("jansson" in n for n in names), manager + ": names", names)
        p = subprocess.run(["sh", "-c", ". ./.ci/packages; install_packages $BUILD_PACKAGES"],
                           cwd=SRCDIR, env=env, capture_output=True, text=True)
        with open(calls) as f:
            called = f.read().splitlines()[-1].split()
        t.ok(p.returncode == 0 and "Installing with " + manager in p.stdout,
             manager + ": says what it installs", p.stdout + p.stderr)
        compilers = [n for n in names if n.startswith(("clang", "lld"))]
        t.equal([n for n in called if n in names],
                [n for n in names if "jansson" not in n and n not in compilers],
                manager + ": and installs what is missing, nothing else")


t = Tap()
for name, words in (("apt-get", "install"), ("dnf", "install"), ("pacman", "--needed")):
    packages(t, name, words)
if not shutil.which("curl"):
    t.skip("curl is not installed")
    t.done()
for what, program, said in ROWS:
    with tempfile.TemporaryDirectory() as where:
        tree(where, program)
        p = subprocess.run(["./quickstart.sh", "--once", "--port", str(free_port())],
                           cwd=where, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=PATIENCE)
        t.equal(p.returncode, 1, what + ": quickstart.sh fails")
        t.ok("quickstart.sh: halod " + said in p.stderr, what + ": and says how", p.stderr)
        t.ok("\n  the last word\n" in p.stderr or "no such" in what,
             what + ": and what it said last", p.stderr)
t.done()
