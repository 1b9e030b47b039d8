#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits of the place, from one up: processes and threads (ulimit -u, as TasksMax and a pids
cgroup also count), open files, address space, data, the stack, and control groups of tasks and of
memory where this may make them. Under each halod serves, or its
start ends with a sentence and an exit status. It never ends by a signal, and never hangs. Only
where memory is a control group's of version 1, which halod does not read, the kernel may kill it.

Each run of the test takes some values; HALOD_CHECK=all takes all of them (ten minutes)."""
import os
import re
import resource
import signal
import socket
import subprocess
import tempfile
import threading

from daemon import CHECK, MODEL, PATIENCE, PROGRAM, Tap

ALL = "all" in CHECK
SANITIZED = b"__asan_init" in open(PROGRAM, "rb").read() if os.path.exists(PROGRAM) else False
MIB, KIB = 1 << 20, 1 << 10
NOBODY = 54321  # a user without other processes
BODY = b'{"prompt":"%s","max_tokens":1}' % (b"a " * 10000)
ASKED = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
         b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY))


def limiter(kind, value):
    def limit():
        resource.setrlimit(kind, (value, value))
        if kind == resource.RLIMIT_NPROC:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return limit


class Group:
    """A control group of its own, of version 1 or 2, whose one limit is set anew for each run."""

    def __init__(self, controller, file_1, file_2):
        self.path = self.file = None
        root = "/sys/fs/cgroup"
        try:
            two = open(root + "/cgroup.subtree_control", encoding="ascii").read().split()
        except OSError:
            two = None
        if two is None or controller in two:
            self.path = os.path.join(root, "" if two else controller, "halod-test-%d" % os.getpid())
            self.file = file_2 if two else file_1
        self.is_version_1 = not two
        try:
            os.mkdir(self.path or "/")
            open(os.path.join(self.path, self.file), "r+").close()
        except OSError:
            self.remove()
            self.path = None

    def limiter(self, value):
        with open(os.path.join(self.path, self.file), "w", encoding="ascii") as f:
            f.write(str(value))

        def limit():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as f:
                f.write("0")
        return limit

    def remove(self):
        if self.path and os.path.isdir(self.path):
            os.rmdir(self.path)


def can_be_loaded(limit):
    """Does the system start the program at all? What its loader says is not halod's."""
    try:
        return subprocess.run([PROGRAM, "--version"], capture_output=True,
                              preexec_fn=limit, timeout=PATIENCE).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


class Run:
    """One daemon under a limit, with two requests if it gets ready."""

    def __init__(self, conf, limit):
        self.lines, self.status = [], None
        p = subprocess.Popen([PROGRAM, "-c", conf, "--model", MODEL], stderr=subprocess.PIPE,
                             stdin=subprocess.DEVNULL, preexec_fn=limit, text=True)
        hang = threading.Timer(PATIENCE, p.kill)
        hang.start()
        for line in p.stderr:
            self.lines.append(line.strip())
            if port := re.search(r"ready: .*:(\d+), loaded", line):
                self.ask(int(port.group(1)))
                p.send_signal(signal.SIGTERM)
        self.code = p.wait()
        hang.cancel()

    def ask(self, port):
        for what in (b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", ASKED):
            try:
                with socket.create_connection(("127.0.0.1", port), PATIENCE) as s:
                    s.sendall(what)
                    answer = b""
                    while piece := s.recv(65536):
                        answer += piece
                self.status = answer[9:12].decode()
            except OSError:
                self.status = "none"

    def __str__(self):
        return "exit status %d, last answer %s\n%s" % (self.code, self.status,
                                                       "\n".join(self.lines[-6:]))

    @property
    def has_served(self):
        return self.code == 0 and self.status in ("200", "400", "503", "none")

    @property
    def is_fine(self):
        says = any(re.match(r"(<\d>)?halod: error: .{20}|<\d>halod: out of memory", x)
                   for x in self.lines)
        return self.has_served or (0 < self.code <= 7 and says)


def walk(t, conf, what, kind, values, unit):
    """Tries the values from the smallest on, kind: one of the system's, or a Group. Two neighbours
    that serve end a walk that is not to take all."""
    n_loaded = n_served = 0
    bad = []
    for v in values:
        limit = kind.limiter(v * unit) if isinstance(kind, Group) else limiter(kind, v * unit)
        if not n_loaded and not can_be_loaded(limit):
            continue
        n_loaded += 1
        run = Run(conf, limit)
        n_served += run.has_served
        may_be_killed = isinstance(kind, Group) and kind.is_version_1 and "memory" in what
        if not run.is_fine and not (may_be_killed and run.code == -signal.SIGKILL):
            bad.append("%s %d: %s" % (what, v, run))
        if n_served == 2 and not ALL:
            break
    t.ok(not bad, "%s: %d limits, of which it serves under %d" % (what, n_loaded, n_served),
         "\n".join(bad))
    t.ok(n_served > 0, "%s: the last ones are enough" % what)


def main():
    t = Tap()
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        conf = os.path.join(d, "halod.conf")
        with open(conf, "w") as f:
            f.write("host = 127.0.0.1\nport = 0\nself_check = off\nspeculative = lookup\n"
                    "threads = 2\nlog_format = text\n")
        os.chmod(conf, 0o644)
        walk(t, conf, "open files", resource.RLIMIT_NOFILE,
             range(1, 65) if ALL else (5, 9, 16, 31, 32, 33, 40), 1)
        can_switch = os.geteuid() == 0 and can_be_loaded(limiter(resource.RLIMIT_NPROC, 9))
        if can_switch:
            walk(t, conf, "threads", resource.RLIMIT_NPROC,
                 range(1, 81) if ALL else (1, 2, 3, 4, 5, 6, 8, 12, 20, 70), 1)
        else:
            t.skip("threads: only root can start it as a user of whom nothing else runs")
        if SANITIZED:
            t.skip("address space, data, the stack: a sanitizer takes more of each")
        else:
            walk(t, conf, "address space in MiB", resource.RLIMIT_AS,
                 range(1, 600) if ALL else (*range(24, 140, 9), *range(150, 600, 40)), MIB)
            walk(t, conf, "data in 256 KiB", resource.RLIMIT_DATA,
                 range(1, 1600, 3) if ALL else (*range(2, 90, 7), *range(100, 2500, 200)), 256 * KIB)
            walk(t, conf, "stack in KiB", resource.RLIMIT_STACK,
                 (*range(16, 513, 16), 1024, 8192) if ALL else (64, 128, 256, 8192), KIB)
        tasks = Group("pids", "pids.max", "pids.max")
        memory = Group("memory", "memory.limit_in_bytes", "memory.max")
        if tasks.path:
            walk(t, conf, "tasks of a control group", tasks,
                 range(1, 81) if ALL else (2, 3, 4, 5, 6, 8, 12, 20, 70), 1)
        else:
            t.skip("tasks of a control group: only root can make one, and not in each container")
        if memory.path and not SANITIZED:
            walk(t, conf, "memory of a control group in MiB", memory,
                 range(2, 256) if ALL else (8, 16, 24, 32, 40, 48, 64, 96, 128, 256), MIB)
        else:
            t.skip("memory of a control group: as of tasks, and a sanitizer takes more")
        tasks.remove()
        memory.remove()
    t.done()


main()
