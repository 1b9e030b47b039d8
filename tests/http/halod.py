# SPDX-License-Identifier: Apache-2.0
"""Starts a real halod for a test, talks to it, and prints TAP.

    def test_x(t, d): t.equal(d.get("/health").status, 200, "it lives")
    run([test_x])                        # one daemon with defaults for all of them
    run([test_x], max_seqs=1, threads=1) # settings as in halod.conf

Standard library only. Waiting is always for an event (a log line, a metric, a byte)
with a deadline that is a failure, not a measure.
"""
import http.client
import importlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

SRCDIR = os.environ.get("HALOD_SRCDIR", ".")
BUILDDIR = os.environ.get("HALOD_BUILDDIR", "build")
FIBERS = os.path.join(BUILDDIR, "tests/hip-on-cpu/libhip_cpu.so")  # a HIP runtime without a GPU
PROGRAM = os.path.join(BUILDDIR, "halod")
MODEL = os.path.join(SRCDIR, "models", "halo-tiny")
CHECK = os.environ.get("HALOD_CHECK", "").split(",")  # docs/testing.md
PATIENCE = 180  # seconds for anything that must happen; sanitizers are slow
# What each start would do again is left out: a self-check (test_selfcheck.py asks for it), and
# timing steps of each width (speculative = auto). Under ThreadSanitizer loops have two threads.
QUICK = {"self_check": "no", "speculative": "lookup",
         "threads": 2 if "races" in CHECK else 1}
# As users start it, for tests with clients side by side.
USUAL = {"self_check": "no" if {"short", "races"} & set(CHECK) else "yes",
         "speculative": "auto", "threads": 2}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Tap:
    def __init__(self):
        self.n = self.failed = 0

    def ok(self, cond, name, note=""):
        self.n += 1
        print(("ok" if cond else "not ok"), self.n, "-", name.replace("#", "no."))
        if not cond:
            self.failed += 1
            for line in str(note).splitlines()[:40]:
                print("#", line)
        sys.stdout.flush()
        return bool(cond)

    def skip(self, why):
        self.n += 1
        print("ok", self.n, "- # SKIP", why)

    def equal(self, got, want, name):
        return self.ok(got == want, name, "got  %r\nwant %r" % (got, want))

    def done(self):
        print("1..%d" % self.n)
        sys.exit(1 if self.failed else 0)


class Answer:
    """A whole response."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class Stream:
    """A response in server-sent events, read as they come."""

    def __init__(self, conn):
        self.conn = conn
        self.response = conn.getresponse()
        self.status, self.headers = self.response.status, self.response.headers

    def lines(self):
        """Raw lines; "" stands between events."""
        while True:
            line = self.response.readline()
            if not line:
                return
            yield line.decode().rstrip("\n")

    def events(self):
        """The JSON of each data line, then "[DONE]"; comments are left out."""
        for line in self.lines():
            if line.startswith("data: "):
                data = line[6:]
                yield data if data == "[DONE]" else json.loads(data)

    def close(self):
        """Hang up, whatever is still to come."""
        sock = self.conn.sock or self.response.fp.raw._sock
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.response.close()
        self.conn.close()


class Halod:
    patience = PATIENCE  # seconds for the next byte of an answer

    def __init__(self, wait=True, model=MODEL, wrap=(), popen={}, program=PROGRAM,
                 **settings):
        """wrap: a command that is to execute halod; popen: how it is started."""
        self.dir = tempfile.mkdtemp(prefix="halod-test-")
        self.lines, self.news = [], threading.Condition()
        self.is_terminated = False
        settings = {"host": "127.0.0.1", "port": 0, **QUICK, **settings}
        conf = os.path.join(self.dir, "halod.conf")
        with open(conf, "w") as f:
            for key, value in settings.items():
                f.write("%s = %s\n" % (key, value))
            f.write(self.settings_end())
        self.process = subprocess.Popen(
            [*wrap, program, "-c", conf, *(["--model", model] if model else [])],
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **popen)
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        line = self.wait_log(r"listening on \S+")
        self.port = int(m.group(1)) if (m := re.search(r":(\d+)[, ]", line)) else 0
        if wait:
            self.wait_ready()

    def settings_end(self):
        """Further lines of halod.conf."""
        return ""

    # --- log ---------------------------------------------------------------

    def _read_log(self):
        for line in self.process.stderr:
            with self.news:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.lines.append(None)
            self.news.notify_all()

    def wait_log(self, pattern, start=0):
        """The first line that matches, also one that came before."""
        deadline = time.monotonic() + PATIENCE
        with self.news:
            while True:
                for line in self.lines[start:]:
                    if line and re.search(pattern, line):
                        return line
                left = deadline - time.monotonic()
                if left < 0 or None in self.lines:
                    raise AssertionError("no log line like %r in\n%s" % (
                        pattern, "\n".join(l or "(end)" for l in self.lines[-20:])))
                start = len(self.lines)
                self.news.wait(left)

    def access(self, request_id):
        """The access log's object for a request."""
        return json.loads(self.wait_log(r'"id":"%s"' % re.escape(request_id)))

    # --- requests ----------------------------------------------------------

    def connect(self):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
        conn.connect()
        return conn

    def request(self, method, path, body=None, headers={}):
        conn = self.connect()
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        conn.request(method, path, body, headers)
        r = conn.getresponse()
        answer = Answer(r.status, r.headers, r.read())
        conn.close()
        return answer

    def get(self, path, headers={}):
        return self.request("GET", path, None, headers)

    def chat(self, text="Hello", headers={}, **more):
        body = {"messages": [{"role": "user", "content": text}], **more}
        return self.request("POST", "/v1/chat/completions", body,
                            {"Content-Type": "application/json", **headers})

    def stream(self, text="Hello", headers={}, path="/v1/chat/completions", **more):
        body = {"messages": [{"role": "user", "content": text}],
                "stream": True, **more}
        conn = self.connect()
        conn.request("POST", path, json.dumps(body),
                     {"Content-Type": "application/json", **headers})
        return Stream(conn)

    def long_stream(self, **more):
        """One that goes on for thousands of tokens; its first token is here."""
        s = self.stream("Tell me a story.", ignore_eos=True, temperature=0,
                        max_tokens=3500, **more)
        next(s.events())
        return s

    def slow_stream(self, n, request_id):
        """A socket that does not read its stream of n tokens; the twenty logprobs of
        each fill whatever the kernel holds."""
        body = json.dumps({"messages": [{"role": "user", "content": "Hi"}],
                           "stream": True, "logprobs": True, "top_logprobs": 20,
                           "ignore_eos": True, "max_tokens": n})
        s = socket.socket()
        s.settimeout(PATIENCE)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", self.port))
        s.sendall(("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                   "X-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s"
                   % (request_id, len(body), body)).encode())
        return s

    def raw(self, data):
        """A socket to which `data` was sent."""
        s = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        s.sendall(data)
        return s

    def raw_answer(self, data):
        """All that comes back until the server closes."""
        with self.raw(data) as s:
            return read_all(s)

    # --- metrics -----------------------------------------------------------

    def metrics(self):
        """{'name{label="value",…}': number}, without halod_ and model_name."""
        return self.metrics_with({})

    def metrics_with(self, headers):
        out = {}
        for line in self.get("/metrics", headers).body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                name = re.sub(r'model_name="[^"]*",?', "", name).replace("{}", "")
                out[name.removeprefix("halod_")] = float(value)
        return out

    def wait_metrics(self, **want):
        """Until each metric has its value; seconds it took."""
        start = time.monotonic()
        while True:
            got = self.metrics()
            if all(got[k] == v for k, v in want.items()):
                return time.monotonic() - start
            if time.monotonic() - start > PATIENCE:
                raise AssertionError("metrics are %r, want %r" % (
                    {k: got[k] for k in want}, want))
            time.sleep(0.01)

    def wait_ready(self):
        deadline = time.monotonic() + PATIENCE
        while not self.is_ready():
            assert time.monotonic() < deadline, "halod is not ready"
            time.sleep(0.01)

    def is_ready(self):
        try:
            return self.get("/health?ready").status == 200
        except OSError as e:
            raise AssertionError("halod has ended with status %d:\n%s" % (
                self.process.wait(PATIENCE), "\n".join(l or "(end)" for l in self.lines[-20:]))
            ) from e

    # --- end ---------------------------------------------------------------

    def terminate(self):
        """Once: a second signal would cut the drain short."""
        if not self.is_terminated and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.is_terminated = True

    def wait(self):
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return code

    def stop(self):
        """SIGTERM and the exit status; a sanitizer's report is one, too."""
        self.terminate()
        try:
            code = self.wait()
        finally:
            if self.process.poll() is None:
                self.process.kill()
            shutil.rmtree(self.dir, ignore_errors=True)
        return code


def wait_for(what, is_so):
    """Polls, for an event that is not announced."""
    done = threading.Event()
    for _ in range(PATIENCE * 20):
        if is_so():
            return
        done.wait(0.05)
    raise AssertionError("this never came: " + what)


class Orders:
    """Orders to slow_disk.c, files in a folder. start: what starts halod with that disk."""

    def __init__(self, folder):
        self.folder = folder
        disk = os.path.abspath(os.path.join(BUILDDIR, "tests/http/slow_disk.so"))
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        self.start = {"env": {**os.environ, "LD_PRELOAD": disk, "SLOW_DISK": folder,
                              "ASAN_OPTIONS": asan}}

    def give(self, name):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8"):
            pass

    def withdraw(self, name):
        os.unlink(os.path.join(self.folder, name))

    def wait(self, name):
        """Until a call waits: "read" or "written"."""
        wait_for(name, lambda: os.path.exists(os.path.join(self.folder, name)))


def read_all(s):
    data = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                return data
            data += piece
    except ConnectionResetError:
        return data


def find(module):
    """The module that test.sh installs below build/clients, or None. The test begins anew in
    that folder's Python where this one does not have it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        clients = os.environ.get("HALOD_CLIENTS", os.path.join(BUILDDIR, "clients"))
        venv = os.path.realpath(os.path.join(clients, "venv"))
        python = os.path.join(venv, "bin", "python")
        if os.path.exists(python) and os.path.realpath(sys.prefix) != venv:
            os.execv(python, [python, *sys.argv])
        return None


def need(module):
    """The module as find gives it, else the end of this test: skipped."""
    found = find(module)
    if not found:
        print("1..0 # SKIP %s for Python is not there; test.sh installs it" % module)
        sys.exit(0)
    return found


def run(tests, **settings):
    """Each test(t, d) with one daemon for all; it must end with status 0."""
    t = Tap()
    try:
        d = Halod(**settings)
    except Exception:
        t.ok(False, "halod starts", traceback.format_exc())
        t.done()
    for test in tests:
        print("# ---", test.__name__)
        try:
            test(t, d)
        except Exception:
            t.ok(False, test.__name__, traceback.format_exc())
        if d.process.poll() is not None:
            break
    log = "\n".join(l for l in d.lines[-60:] if l)
    t.ok(d.process.poll() is None, "halod is still there", log)
    t.equal(d.stop(), 0, "halod ends well")
    t.done()
