#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Routers made for vLLM, with the files of conf/scale-out, in front of three real daemons:
vllm-router and smg. Only addresses change. What build/clients lacks is skipped, and said so:

    build/clients/venv/bin/pip install vllm-router smg
"""
import os
import time
import traceback

from scale_out import (SESSION, Front, ask, drop, end_boxes, fill, session_of,
                       start_boxes, stream_to_end, test_back, test_drain, test_sessions,
                       test_stream, under_load)
from halod import BUILDDIR, PATIENCE, Tap, free_port

CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(BUILDDIR, "clients"))
PROGRAMS = os.path.join(CLIENTS, "venv", "bin")


def start(name, boxes):
    port = str(free_port())
    front = Front(name + ".sh", ["sh", "CONF"], boxes, lambda text: text.replace("29000", port),
                  env={"PATH": os.path.abspath(PROGRAMS) + ":" + os.environ["PATH"]})
    # /v1/models is there with the first box already.
    for box in boxes:
        session_of(front, boxes, box)
    return front


def loads(front):
    """{port of a box: (running, waiting)}, as smg has read them from its metrics."""
    rows = front.get("/get_loads").json["loads"]
    return {int(row["worker"].rsplit(":", 1)[1]): (row["num_running_reqs"],
                                                   row["num_waiting_reqs"]) for row in rows}


def test_loads(t, front, boxes):
    """Work that came past smg is seen in /metrics. Nobody waits for a box that is full."""
    session = session_of(front, boxes, boxes[0])
    sockets = fill(boxes[0], "direct", boxes[0])
    want = {box.port: (1, 3) if box is boxes[0] else (0, 0) for box in boxes}
    deadline = time.monotonic() + PATIENCE
    while (got := loads(front)) != want and time.monotonic() < deadline:
        time.sleep(0.05)
    t.equal(got, want, "it reads what runs and waits in each box")
    seen = [ask(front, boxes, "elsewhere-%d" % i) for i in range(6)]
    t.ok(all(a.status == 200 and box is not boxes[0] for a, box in seen),
         "new conversations go to boxes with room", [a.status for a, _ in seen])
    answer, where = ask(front, boxes, session)
    t.ok(answer.status == 200 and where is not boxes[0],
         "and so does one whose box is full", answer.body)
    drop(sockets, boxes)


def test_full(t, front, boxes):
    """A conversation whose box is full."""
    session = "full"
    _, home = ask(front, boxes, session)
    sockets = fill(home, "direct", home)
    answer, _ = ask(front, boxes, session)
    t.ok(answer.status == 429 and answer.headers["Retry-After"] and answer.error["message"],
         "a conversation whose box is full is told so, as by the box", answer.body)
    drop(sockets, boxes)
    t.equal(ask(front, boxes, session)[1], home, "with room again it is back at home")


def test_kill(t, front, boxes):
    """SIGKILL: requests under way there fail where clients see it, and soon none does."""
    box, other = boxes[1], boxes[2]
    session = session_of(front, [box, other], box)
    stream = front.stream("Tell me a story.", {SESSION: session}, ignore_eos=True,
                          max_tokens=3500)
    next(stream.events())

    def kill():
        box.process.kill()
        box.wait()
        deadline = time.monotonic() + PATIENCE
        well = 0  # conversations of the killed box among them
        while well < 8 and time.monotonic() < deadline:
            well = well + 1 if front.chat("Hi", {SESSION: "dead-%d" % well},
                                          max_tokens=2).status == 200 else 0
    seen = under_load(front, kill)
    t.equal(stream_to_end(stream.response), "cut", "the stream of a killed box ends in an error")
    t.ok(set(seen) <= {"done", 200, "cut", 500, 502, 503},
         "what fails says so (%d)" % len(seen), seen)
    after = under_load(front, lambda: None, kept=4)
    t.ok(set(after) <= {"done", 200}, "then it is left out (%d)" % len(after), after)
    t.equal(ask(front, [other], session)[1], other, "its conversations go on elsewhere")


def router(t, name, full, boxes):
    with start(name, boxes) as front:
        t.equal(front.get("/health").status, 200, "/health is that of the router")
        for test in (test_sessions, test_stream, full, test_drain, test_kill, test_back):
            test(t, front, boxes)


def main():
    t = Tap()
    for name, full in (("vllm-router", test_full), ("smg", test_loads)):
        if not os.path.exists(os.path.join(PROGRAMS, name)):
            t.skip("%s is not installed in %s: nothing went through it" % (name, CLIENTS))
            continue
        print("# ---", name)
        boxes = start_boxes(drain_delay="3s")
        try:
            router(t, name, full, boxes)
        except Exception:
            t.ok(False, name, traceback.format_exc())
        end_boxes(t, boxes)
    t.done()


main()
