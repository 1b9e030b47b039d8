# SPDX-License-Identifier: Apache-2.0
"""halod as systemd sees it: its messages, its sockets, its end. See tests/http/halod.py
for the rest."""
import collections
import http.client
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests", "http"))
from halod import CHECK, MODEL, PATIENCE, PROGRAM, SRCDIR, Halod, Tap, free_port


def run(*argv, program=PROGRAM, **more):
    """(exit status, stdout, stderr) of halod with these arguments."""
    p = subprocess.run([program, *argv], stdin=subprocess.DEVNULL, text=True,
                       timeout=PATIENCE, **{"capture_output": True, **more})
    return p.returncode, p.stdout, p.stderr


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Told:
    """What halod tells systemd, read at once as systemd does: ten messages that nobody reads
    would hold halod."""

    def __init__(self, path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.setblocking(False)
        self.messages = collections.deque()
        self.came = threading.Condition()
        self.is_open = True
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def take(self):
        """What has come. self.came is held."""
        try:
            while True:
                self.messages.append(self.socket.recv(4096).decode())
                self.came.notify_all()
        except BlockingIOError:
            pass

    def read(self):
        while self.is_open:
            select.select([self.socket], [], [])
            with self.came:
                self.take()

    def next(self):
        with self.came:
            if not self.came.wait_for(lambda: self.messages, PATIENCE):
                raise TimeoutError("halod tells systemd nothing")
            return self.messages.popleft()

    def until_now(self):
        with self.came:
            self.take()
            messages = list(self.messages)
            self.messages.clear()
            return messages

    def close(self):
        self.is_open = False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(b"", self.path)
        self.reader.join()
        self.socket.close()


class Daemon(Halod):
    """with Daemon(max_seqs=1) as d: …; env: beside the caller's own; listen: a socket
    that halod gets as from a socket unit."""

    def __init__(self, wait=True, model=MODEL, env={}, listen=None, **settings):
        self.unix_path = settings.get("unix_socket")
        self.listen = listen
        self.systemd = tempfile.TemporaryDirectory(prefix="halod-systemd-")
        self.notify = Told(os.path.join(self.systemd.name, "notify"))
        popen = {"env": {**os.environ, "NOTIFY_SOCKET": self.notify.path, **env}}
        wrap = ()
        if listen:
            # LISTEN_PID names the process, and the shell becomes halod.
            popen["pass_fds"] = (listen.fileno(),)
            wrap = ("sh", "-c", 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@" 3<&%d'
                    % listen.fileno(), "sh")
        super().__init__(wait, model, wrap, popen, **settings)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.stop()
        self.notify.close()
        self.systemd.cleanup()

    def connect(self):
        if self.listen:
            self.port = self.listen.getsockname()[1]
        if not self.unix_path:
            return super().connect()
        conn = UnixConnection(self.unix_path)
        conn.connect()
        return conn

    def told(self, text):
        """Receive what halod tells systemd until a message holds text; that one."""
        while True:
            message = self.notify.next()
            if text in message:
                return message

    def told_until_now(self):
        return self.notify.until_now()
