# SPDX-License-Identifier: Apache-2.0
"""Three boxes with halod, and a front end with a file of conf/scale-out before them. Only
addresses change in that file. See tests/http/halod.py for the rest."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests", "http"))
from halod import PATIENCE, SRCDIR, Halod

FOLDER = os.path.join(SRCDIR, "conf", "scale-out")
BOX = {"max_seqs": 1, "max_queue": 3, "threads": 1}
ROOM = 4  # requests that a box takes
SESSION = "X-Session-ID"
NGINX = """
daemon off; master_process off; pid %(dir)s/pid; error_log stderr;
%(user)s
events {}
http {
    access_log off;
    client_body_temp_path %(dir)s; proxy_temp_path %(dir)s; fastcgi_temp_path %(dir)s;
    uwsgi_temp_path %(dir)s; scgi_temp_path %(dir)s;
    include %(conf)s;
}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Front(Halod):
    """with Front("nginx.conf", argv, boxes) as f: a front end, asked as halod is. argv
    names the file as CONF and the folder as DIR."""

    def __init__(self, name, argv, boxes, change=lambda text: text, ready="/v1/models",
                 env={}):
        self.lines, self.news = [], threading.Condition()
        self.dir = tempfile.mkdtemp(prefix="halod-front-")
        self.port = free_port()
        with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
            text = change(f.read())
        for i, port in enumerate([self.port] + [box.port for box in boxes]):
            text = text.replace("127.0.0.1:%d" % (8080 + i if i else 8000),
                                "127.0.0.1:%d" % port)
        conf = os.path.join(self.dir, name)
        with open(conf, "w") as f:
            f.write(text)
        user = "user root;" if os.getuid() == 0 else ""
        with open(os.path.join(self.dir, "main"), "w") as f:
            f.write(NGINX % {"dir": self.dir, "user": user, "conf": conf})
        places = {"CONF": conf, "MAIN": os.path.join(self.dir, "main"),
                  "PORT": str(self.port)}
        self.process = subprocess.Popen([places.get(a, a) for a in argv],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL, env={**os.environ, **env})
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        self.wait_until_ready(ready)

    def wait_until_ready(self, path):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if self.get(path).status == 200:
                    return
            except OSError:
                pass
            said = "\n".join(l for l in self.lines[-20:] if l)
            assert self.process.poll() is None, "the front end has ended: " + said
            assert time.monotonic() < deadline, "the front end is not ready: " + said
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.reader.join(PATIENCE)
        shutil.rmtree(self.dir, ignore_errors=True)


# --- what runs where ------------------------------------------------------------------

def start_boxes(**more):
    return [Halod(**BOX, **more) for _ in range(3)]


def begin_stream(front, session, text="Hi", max_tokens=3500):
    """A socket with a request for a stream of max_tokens; closing it ends it."""
    body = json.dumps({"messages": [{"role": "user", "content": text}], "stream": True,
                       "ignore_eos": True, "max_tokens": max_tokens})
    s = socket.create_connection(("127.0.0.1", front.port), PATIENCE)
    s.sendall(("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\n"
               "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
               % (SESSION, session, len(body), body)).encode())
    return s


def fill(front, session, box, n=ROOM):
    """n requests, of which one runs, have come to the box."""
    sockets = []
    for i in range(n):
        sockets.append(begin_stream(front, session))
        box.wait_metrics(num_requests_running=1, num_requests_waiting=i)
    return sockets


def drop(sockets, boxes):
    for s in sockets:
        s.close()
    for box in boxes:
        box.wait_metrics(num_requests_running=0, num_requests_waiting=0)


class Job(threading.Thread):
    """A call in a thread of its own; result() is what it returned or raised."""

    def __init__(self, call, *args):
        super().__init__(daemon=True)
        self.call, self.args, self.value = call, args, None
        self.start()

    def run(self):
        try:
            self.value = self.call(*self.args)
        except Exception as e:
            self.value = e

    def result(self):
        self.join(PATIENCE)
        return self.value


def stream_to_end(response):
    """What a client sees of the rest of a stream: "done", "cut" (an error), or "silent": it
    ended as if all were well, but it was not."""
    try:
        if response.status != 200:
            return response.status
        text = response.read()
    except (http.client.HTTPException, OSError):
        return "cut"
    return "done" if b"data: [DONE]" in text else "silent"


def end_boxes(t, boxes):
    """Those that no test has killed must end well."""
    for box in boxes:
        if box.process.returncode == -signal.SIGKILL:
            shutil.rmtree(box.dir, ignore_errors=True)
        else:
            t.equal(box.stop(), 0, "a box ends well")
