# SPDX-License-Identifier: Apache-2.0
"""A real halod for tests, and TAP. Python's standard library only.

    with Halod("--max-seqs", "2") as d:      # any free port; ready when it returns
        status, headers, body = d.get("/health")
    ok(status == 200, "health")
    done()

Nothing here sleeps to let something happen: it waits for the line in the log, the
datagram or the end of the process that says it did, at most TIMEOUT seconds.
"""
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

SRC = os.environ.get("HALOD_SRCDIR", ".")
BUILD = os.environ.get("HALOD_BUILDDIR", ".")
PROGRAM = os.path.join(BUILD, "halod")
MODEL = os.path.join(SRC, "models/halo-tiny")
TIMEOUT = 60

_n = 0
_failed = 0


def ok(passed, name, *details):
    """One TAP line; details are shown when it fails."""
    global _n, _failed
    _n += 1
    print(f"{'' if passed else 'not '}ok {_n} - {name}", flush=True)
    if not passed:
        _failed += 1
        for d in details:
            for line in str(d).splitlines():
                print(f"# {line}", flush=True)
    return passed


def equal(got, want, name):
    return ok(got == want, name, f"got  {got!r}", f"want {want!r}")


def done():
    print(f"1..{_n}", flush=True)
    sys.exit(1 if _failed else 0)


class Unix(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def events(response):
    """The data of each server-sent event, as it arrives."""
    if response.status != 200:
        raise ValueError(f"status {response.status}: {response.read()}")
    for line in response:
        if line.startswith(b"data: "):
            yield line[6:].rstrip(b"\r\n").decode()


class Halod:
    """flags go to the program; wait: the log line to wait for, None for none."""

    def __init__(self, *flags, wait=r"ready: ", model=MODEL, env=None, listen=None,
                 conf=os.devnull, port="0"):
        self.log = []
        self.address = None
        # What systemd would listen to.
        self.dir = tempfile.TemporaryDirectory(prefix="halod-test-")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(os.path.join(self.dir.name, "notify"))
        self.notify.settimeout(TIMEOUT)
        e = dict(os.environ, NOTIFY_SOCKET=self.notify.getsockname())
        e.update(env or {})
        argv = [PROGRAM, "-c", conf, "--model", model, "--port", port, *flags]
        fds = ()
        if listen:
            # Socket activation names the process that descriptor 3 is meant for.
            argv = ["sh", "-c", 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@" 3<&%d'
                    % listen.fileno(), "sh", *argv]
            fds = (listen.fileno(),)
        self.process = subprocess.Popen(argv, stderr=subprocess.PIPE, env=e,
                                        stdin=subprocess.DEVNULL, pass_fds=fds)
        os.set_blocking(self.process.stderr.fileno(), False)
        self._rest = b""
        if wait:
            try:
                self.wait_log(wait)
            except BaseException:
                self.__exit__()
                raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.notify.close()
        self.dir.cleanup()

    # --- log -----------------------------------------------------------------

    def _read_log(self, deadline):
        """More lines of the log; False at its end."""
        fd = self.process.stderr.fileno()
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            raise TimeoutError("the log says only:\n" + "\n".join(self.log))
        chunk = os.read(fd, 65536)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self.log.append(line.decode())
            m = re.search(r"listening on (\S+),", self.log[-1])
            if m:
                self.address = m.group(1)
        return bool(chunk)

    def wait_log(self, pattern, start=0):
        """The first line, from log[start] on, that matches."""
        deadline = time.monotonic() + TIMEOUT
        at = start
        while True:
            for at in range(at, len(self.log)):
                if re.search(pattern, self.log[at]):
                    return self.log[at]
            at = len(self.log)
            if not self._read_log(deadline):
                raise EOFError("the log ended without /%s/:\n%s"
                               % (pattern, "\n".join(self.log)))

    def wait_exit(self):
        """The exit status; the log is complete then."""
        deadline = time.monotonic() + TIMEOUT
        while self._read_log(deadline):
            pass
        return self.process.wait(TIMEOUT)

    def kill(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait_notify(self, text):
        """Receive until a message holds text; return that message."""
        while True:
            message = self.notify.recv(4096).decode()
            if text in message:
                return message

    def notified(self):
        """What has been received until now."""
        messages = []
        self.notify.setblocking(False)
        try:
            while True:
                messages.append(self.notify.recv(4096).decode())
        except BlockingIOError:
            return messages
        finally:
            self.notify.settimeout(TIMEOUT)

    # --- HTTP ------------------------------------------------------------------

    @property
    def port(self):
        return int(self.address.rsplit(":", 1)[1])

    def connect(self, timeout=TIMEOUT):
        if self.address.startswith("/"):
            return Unix(self.address, timeout)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body); a JSON body is parsed."""
        c = self.connect()
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        data = r.read()
        c.close()
        if r.headers.get_content_type() == "application/json":
            data = json.loads(data)
        return r.status, r.headers, data

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body):
        return self.request("POST", path, body)

    def chat(self, text, **more):
        return self.post("/v1/chat/completions",
                         {"messages": [{"role": "user", "content": text}], **more})

    def stream(self, text, **more):
        """The response of a streaming chat completion, its head read."""
        c = self.connect()
        c.request("POST", "/v1/chat/completions", json.dumps(
            {"messages": [{"role": "user", "content": text}], "stream": True, **more}))
        return c.getresponse()
