# SPDX-License-Identifier: Apache-2.0
"""Three boxes with halod, and a front end with a file of conf/scale-out before them. Only
addresses change in that file. See tests/http/halod.py for the rest."""
import http.client
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

sys.path.insert(0, os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests", "http"))
from halod import PATIENCE, SRCDIR, Halod, free_port

FOLDER = os.path.join(SRCDIR, "conf", "scale-out")
BOX = {"max_seqs": 1, "max_queue": 3, "threads": 1}
ROOM = 4  # requests that a box takes
SESSION = "X-Session-ID"
MODEL = "halo-tiny"  # routers want it named
LONG = "Tell me a story. " * 20
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
        text = text.replace("--port 8000", "--port %d" % self.port)
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
        try:
            self.wait_until_ready(ready)
        except AssertionError:
            self.__exit__()
            raise

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

    def chat(self, *args, **more):
        return super().chat(*args, **{"model": MODEL, **more})

    def stream(self, *args, **more):
        return super().stream(*args, **{"model": MODEL, **more})

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
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": text}],
                       "stream": True, "ignore_eos": True, "max_tokens": max_tokens})
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
    if b'data: {"error":' in text:
        return "cut"
    return "done" if b"data: [DONE]" in text else "silent"


def end_boxes(t, boxes):
    """Those that no test has killed must end well."""
    for box in boxes:
        if box.process.returncode == -signal.SIGKILL:
            shutil.rmtree(box.dir, ignore_errors=True)
        else:
            t.equal(box.stop(), 0, "a box ends well")


class Names:
    n = 0

    @classmethod
    def new(cls):
        cls.n += 1
        return "request-%d" % cls.n


def box_of(boxes, request_id):
    """The box that answered it."""
    wanted = re.compile(r'"id":"%s".*"status":200' % re.escape(request_id))
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for box in boxes:
            if any(l and wanted.search(l) for l in list(box.lines)):
                return box
        time.sleep(0.01)
    raise AssertionError("no box has answered %s:\n%s" % (
        request_id, "\n".join(l or "(end)" for box in boxes for l in box.lines[-5:])))


def ask(front, boxes, session, **more):
    """(answer, the box that gave it)"""
    name = Names.new()
    answer = front.chat(LONG + session, {"X-Request-Id": name, SESSION: session},
                        max_tokens=2, **more)
    return answer, box_of(boxes, name) if answer.status == 200 else None


def session_of(front, boxes, home):
    """A conversation that lives in this box."""
    for i in range(100):
        session = "of-box-%d-%d" % (boxes.index(home), i)
        if ask(front, boxes, session)[1] is home:
            return session
    raise AssertionError("no conversation goes to this box")


def client(front, i, until, seen):
    """Asks in turn for a stream and for a whole answer; what became of each."""
    n = 0
    while not until.is_set():
        n += 1
        headers = {SESSION: "client-%d-%d" % (i, n)}
        try:
            if n % 2:
                s = front.stream("Hi", headers, max_tokens=24)
                seen.append(stream_to_end(s.response))
            else:
                seen.append(front.chat("Hi", headers, max_tokens=24).status)
        except (http.client.HTTPException, OSError) as e:
            seen.append(repr(e))


def under_load(front, what, kept=2):
    """What two clients see while what() happens: of each, at least `kept` answers after."""
    until, seen = threading.Event(), [[], []]
    jobs = [Job(client, front, i, until, seen[i]) for i in range(2)]
    try:
        what()
        counts = [len(s) for s in seen]
        deadline = time.monotonic() + PATIENCE
        while any(len(s) < n + kept for s, n in zip(seen, counts)):
            assert time.monotonic() < deadline, seen
            time.sleep(0.01)
    finally:
        until.set()
        for job in jobs:
            job.join(PATIENCE)
    return seen[0] + seen[1]


# --- facts that hold of each front end that keeps conversations on their box ------------

def test_sessions(t, front, boxes):
    homes = set()
    for i in range(8):
        turns = [ask(front, boxes, "conversation-%d" % i) for _ in range(3)]
        homes.add(turns[0][1])
        if not t.ok(len({box for _, box in turns}) == 1,
                    "conversation %d stays on its box" % i):
            continue
        usage = turns[1][0].json["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        t.ok(cached > usage["prompt_tokens"] // 2, "its prefix is found there", usage)
    t.ok(len(homes) > 1, "conversations are spread over the boxes")


def test_stream(t, front, boxes):
    s = front.long_stream()
    t.ok(any(box.metrics()["num_requests_running"] == 1 for box in boxes),
         "the first token comes while the box still writes")
    s.close()
    for box in boxes:
        box.wait_metrics(num_requests_running=0)
    t.ok(True, "a client that leaves ends its request in the box")


def test_drain(t, front, boxes):
    """SIGTERM to one box: the rest of its stream comes, and nobody is refused."""
    box = boxes[0]
    session = session_of(front, boxes, box)
    stream = front.stream("Tell me a story.", {SESSION: session}, ignore_eos=True,
                          max_tokens=600)
    rest = Job(stream_to_end, stream.response)

    def drain():
        box.terminate()
        t.equal(box.wait(), 0, "the drained box ends well")
    seen = under_load(front, drain)
    t.equal(rest.result(), "done", "the stream of a drained box comes to its end")
    t.ok(set(seen) <= {"done", 200}, "no request is lost while it drains (%d)" % len(seen),
         seen)


def test_back(t, front, boxes):
    """A box that is started again gets its share."""
    again = Halod(**BOX, port=boxes[1].port)
    try:
        deadline = time.monotonic() + PATIENCE
        i, where = 0, None
        while where is not again and time.monotonic() < deadline:
            i += 1
            where = ask(front, [again, boxes[2]], "new-%d" % i)[1]
        t.ok(where is again, "a box that is back gets conversations")
    finally:
        t.equal(again.stop(), 0, "it ends well")
