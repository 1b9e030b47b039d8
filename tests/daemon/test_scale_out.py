#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HAProxy and nginx with the files of conf/scale-out in front of three real daemons. Only
addresses change, and for HAProxy maxconn: one request runs and three wait in each box
here. What is not installed is skipped, and said so."""
import http.client
import os
import select
import shutil
import signal
import time
import traceback

from scale_out import (LONG, PATIENCE, ROOM, SESSION, Front, Job, Names, ask, begin_stream, box_of,
                       drop, end_boxes, fill, session_of, start_boxes, stream_to_end, test_back,
                       test_drain, test_sessions, test_stream, under_load)
from halod import Tap

MAXCONN = ROOM - 1  # requests that HAProxy gives a box


# --- facts ------------------------------------------------------------------------------

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
