#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HAProxy and nginx with the files of conf/scale-out in front of three real daemons. Only
addresses change, and for HAProxy maxconn: one request runs and three wait in each box
here. What is not installed is skipped, and said so."""
import http.client
import os
import re
import select
import shutil
import signal
import threading
import time
import traceback

from scale_out import (BOX, PATIENCE, ROOM, SESSION, Front, Halod, Job, begin_stream, drop,
                       end_boxes, fill, start_boxes, stream_to_end)
from halod import Tap

MAXCONN = ROOM - 1  # requests that HAProxy gives a box
LONG = "Tell me a story. " * 20


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


# --- facts ------------------------------------------------------------------------------

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


def test_keys(t, front, boxes):
    for header in ("Authorization", "X-API-Key"):
        seen = set()
        for _ in range(3):
            name = Names.new()
            front.chat("Hi", {header: "Bearer sk-first", "X-Request-Id": name}, max_tokens=2)
            seen.add(box_of(boxes, name))
        t.equal(len(seen), 1, "without a name of its own the key counts: " + header)


def test_responses(t, front, boxes):
    """Responses are stored in the box that made them."""
    headers = {SESSION: "responses", "Content-Type": "application/json"}
    body = {"input": "Hi", "max_output_tokens": 16}
    said = []
    for _ in range(3):
        answer = front.request("POST", "/v1/responses", body, headers)
        said.append(answer.status)
        body["previous_response_id"] = answer.json.get("id")
    t.equal(said, [200, 200, 200], "/v1/responses goes on from previous_response_id")


def test_stream(t, front, boxes):
    s = front.long_stream()
    t.ok(any(box.metrics()["num_requests_running"] == 1 for box in boxes),
         "the first token comes while the box still writes")
    s.close()
    for box in boxes:
        box.wait_metrics(num_requests_running=0)
    t.ok(True, "a client that leaves ends its request in the box")


def test_pages(t, front):
    t.equal([front.get(p).status for p in ("/metrics", "/slots")], [404, 404],
            "/metrics and /slots are not those of a box by chance")


def test_full_nginx(t, front, boxes):
    session = "full"
    _, home = ask(front, boxes, session)
    sockets = fill(home, "direct", home)
    t.equal(home.chat("Hi").status, 429, "a box is full")
    answer, where = ask(front, boxes, session)
    t.ok(answer.status == 200 and where is not home, "429 is tried elsewhere", answer.body)
    for box in boxes:
        if box is not home:
            sockets += fill(box, "direct", box)
    answer = front.chat("Hi", {SESSION: session})
    t.ok(answer.status == 429 and answer.headers["Retry-After"] and answer.error["message"],
         "when all are full the client is told, as by one box", answer.body)
    drop(sockets, boxes)
    t.equal(ask(front, boxes, session)[1], home, "with room again it is back at home")


def test_full_haproxy(t, front, boxes):
    """maxconn keeps a box from being asked when it is full; HAProxy waits instead."""
    session = "full"
    _, home = ask(front, boxes, session)
    sockets = fill(front, session, home, MAXCONN)
    first, second = (Job(ask, front, boxes, session) for _ in range(2))
    # Whichever of the two comes first waits for its box.
    deadline = time.monotonic() + PATIENCE
    while first.is_alive() and second.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    done, waits = (second, first) if first.is_alive() else (first, second)
    answer, where = done.result()
    t.ok(answer.status == 200 and where is not home, "beyond what a box takes others help",
         answer.body)
    crowd = [Job(front.chat, "Hi", {SESSION: "many-%d" % i}) for i in range(12)]
    t.equal([job.result().status for job in crowd], [200] * 12, "a crowd is answered")
    t.ok(waits.is_alive(), "one request waits for its box")
    drop(sockets, boxes)
    answer, where = waits.result()
    t.equal((answer.status, where), (200, home), "and is answered there")
    rejected = sum(v for box in boxes for k, v in box.metrics().items()
                   if k.startswith("requests_rejected_total"))
    t.equal(rejected, 0, "no box had to say 429")


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


def test_kill(t, front, boxes):
    """SIGKILL: its streams are cut where the client sees it; all else is answered."""
    box, other = boxes[1], boxes[2]
    session = session_of(front, [box, other], box)
    stream = front.stream("Tell me a story.", {SESSION: session}, ignore_eos=True,
                          max_tokens=3500)
    next(stream.events())
    waiting = Job(front.chat, "Hi", {SESSION: session})
    box.wait_metrics(num_requests_running=1, num_requests_waiting=1)

    def kill():
        box.process.kill()
        box.wait()
    seen = under_load(front, kill)
    t.equal(stream_to_end(stream.response), "cut", "the stream of a killed box ends in an error")
    answer = waiting.result()
    t.equal(getattr(answer, "status", answer), 200,
            "the request that waited there is answered by another")
    t.ok(set(seen) <= {"done", 200, "cut"} and seen.count("cut") <= 2,
         "no other request is lost (%d)" % len(seen), seen)


def test_kill_unborn(t, front, boxes):
    """SIGKILL while one stream is in prefill and others wait in the box: none has a byte yet, so
    none is cut. All are answered by other boxes. These boxes take one token a step."""
    home = boxes[0]
    session = session_of(front, boxes, home)
    waiting = []
    for i in range(MAXCONN):
        waiting.append(begin_stream(front, session, LONG * 9, 4))
        home.wait_metrics(num_requests_running=1, num_requests_waiting=i)
    home.process.send_signal(signal.SIGSTOP)
    t.equal(select.select(waiting, [], [], 0)[0], [], "no stream has a byte yet")
    home.process.kill()
    home.wait()
    ends = []
    for s in waiting:
        response = http.client.HTTPResponse(s)
        response.begin()
        ends.append(stream_to_end(response))
        s.close()
    t.equal(ends, ["done"] * MAXCONN, "a stream in prefill and those that wait go to other boxes")


def unborn(t, start):
    boxes = start_boxes(max_batch_tokens=1, prefill_chunk=1, keepalive="1m", prefix_cache="no")
    try:
        with start(boxes) as front:
            test_kill_unborn(t, front, boxes)
    finally:
        end_boxes(t, boxes)


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


def all_facts(t, front, boxes, full):
    for test in (test_sessions, test_keys, test_responses, test_stream):
        test(t, front, boxes)
    test_pages(t, front)
    full(t, front, boxes)
    test_drain(t, front, boxes)
    test_kill(t, front, boxes)
    test_back(t, front, boxes)


# --- front ends -------------------------------------------------------------------------

def find(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")


def start_haproxy(boxes):
    return Front("haproxy.cfg", [find("haproxy"), "-db", "-f", "CONF"], boxes,
                 lambda text: text.replace("maxconn 64", "maxconn %d" % MAXCONN))


def haproxy(t, boxes):
    with start_haproxy(boxes) as front:
        t.equal(front.get("/health").status, 200, "/health is that of all boxes")
        all_facts(t, front, boxes, test_full_haproxy)
    unborn(t, start_haproxy)


def start_nginx(boxes):
    return Front("nginx.conf", [find("nginx"), "-c", "MAIN"], boxes)


def nginx(t, boxes):
    with start_nginx(boxes) as front:
        all_facts(t, front, boxes, test_full_nginx)
    unborn(t, start_nginx)


def main():
    t = Tap()
    for program, what, test in (("haproxy", "HAProxy", haproxy), ("nginx", "nginx", nginx)):
        if not find(program):
            t.skip("%s is not installed: nothing went through it" % what)
            continue
        print("# ---", what)
        boxes = start_boxes()
        try:
            test(t, boxes)
        except Exception:
            t.ok(False, what, traceback.format_exc())
        end_boxes(t, boxes)
    t.done()


main()
