#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon as a process: settings, exit codes, signals, systemd."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests"))
from halod import MODEL, PROGRAM, SRC, TIMEOUT, Halod, done, equal, events, ok

ENDLESS = {"ignore_eos": True}  # until the context is full: 4000 tokens


def run(*argv):
    p = subprocess.run([PROGRAM, *argv], capture_output=True, text=True,
                       timeout=TIMEOUT, stdin=subprocess.DEVNULL)
    return p.returncode, p.stdout, p.stderr


def test_command_line(tmp):
    code, out, err = run("--version")
    ok(code == 0 and out.startswith("halod ") and not err, "--version", out, err)
    code, out, _ = run("--help")
    ok(code == 0 and "--max-queue N" in out, "--help")
    code, out, _ = run("-c", "/dev/null", "--print-config")
    with open(os.path.join(SRC, "conf/halod.conf"), encoding="utf-8") as f:
        equal(out, f.read(), "--print-config is conf/halod.conf")
    code, out, _ = run("-c", os.path.join(SRC, "conf/halod.conf"), "--check-config")
    equal(code, 0, "--check-config accepts conf/halod.conf")

    conf = os.path.join(tmp, "wrong.conf")
    with open(conf, "w", encoding="utf-8") as f:
        f.write("port = 1\nmax_que = 3\n")
    equal(run("-c", conf, "--check-config")[0], 2, "a wrong file exits 2")
    code, _, err = run("-c", conf)
    equal((code, err), (2, f"halod: error: {conf}:2: unknown key \"max_que\"; did you "
                           "mean max_queue?\n"), "so does a start with it, and says why")
    equal(run("--prot", "1")[0], 2, "an unknown flag exits 2")
    with open("/dev/full", "w", encoding="utf-8") as full:
        code = subprocess.run([PROGRAM, "--help"], stdout=full, timeout=TIMEOUT).returncode
    equal(code, 1, "--help onto a full disk exits 1")


def test_failed_starts(tmp):
    code, _, err = run("-c", "/dev/null", "--port", "0", "--model", tmp)
    ok(code == 3 and tmp in err, "a folder without a model exits 3 and is named", code, err)
    code, _, err = run("-c", "/dev/null", "--port", "0", "--model", "/nonexistent")
    ok(code == 3 and "/nonexistent" in err, "so does no folder", code, err)
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = str(s.getsockname()[1])
        code, _, err = run("-c", "/dev/null", "--port", port, "--model", MODEL)
        ok(code == 4 and port in err, "an address in use exits 4 and is named", code, err)
    code, _, err = run("-c", "/dev/null", "--unix-socket", tmp + "/no/such/folder/s")
    equal(code, 4, "a unix socket that cannot be had exits 4")


def test_loading(tmp):
    """A model whose config.json is a FIFO that nobody writes loads for ever."""
    model = os.path.join(tmp, "slow")
    os.mkdir(model)
    os.mkfifo(os.path.join(model, "config.json"))
    with Halod(model=model, wait="listening on") as d:
        status, headers, body = d.chat("hi")
        ok(status == 503 and "Loading" in body["error"]["message"] and
           headers["Retry-After"], "API routes answer 503 while loading", status, body)
        equal(d.get("/health")[0], 200, "the process is healthy")
        equal(d.get("/health?ready")[0], 503, "but not ready")
        ok(not any("READY=1" in m for m in d.notified()), "systemd is not told READY=1")
        d.kill()
        equal(d.wait_exit(), 0, "SIGTERM while loading exits 0")


def test_serving():
    with Halod(env={"WATCHDOG_USEC": "2000000"}) as d:
        ready = d.wait_notify("READY=1")
        ok("STATUS=Serving halo-tiny" in ready, "READY=1 and a status", ready)
        d.wait_notify("WATCHDOG=1")
        ok(True, "the watchdog is fed")
        equal(d.get("/health?ready")[0], 200, "ready")
        status, _, body = d.chat("What is the capital of France?", max_tokens=5)
        ok(status == 200 and body["usage"]["completion_tokens"] > 0, "answers", body)
        metrics = d.get("/metrics")[2].decode()
        ok('halod_engine_state{model_name="halo-tiny",state="ready"} 1' in metrics,
           "metrics know the state")
        d.kill(signal.SIGHUP)
        d.wait_log("SIGHUP")
        equal(d.get("/health")[0], 200, "SIGHUP changes nothing")
        d.kill()
        equal(d.wait_exit(), 0, "SIGTERM exits 0")
        ok(any("STOPPING=1" in m and "EXTEND_TIMEOUT_USEC=" in m for m in d.notified()),
           "systemd hears of the stop, and how long it may last")


def test_drain():
    with Halod() as d:
        stream = d.stream("Tell a long story.", max_tokens=400, ignore_eos=True)
        got = events(stream)
        next(got)
        d.kill()
        d.wait_log("draining: 1 requests")
        equal(d.get("/health?ready")[0], 503, "a draining daemon is not ready")
        status, headers, body = d.chat("hi")
        ok(status == 503 and headers["Retry-After"], "nor does it take new requests",
           status, body)
        chunks = list(got)
        equal(chunks[-1], "[DONE]", "the running stream ends as it should")
        equal(d.wait_exit(), 0, "then the daemon exits 0")


def test_drain_timeout():
    with Halod("--drain-timeout", "200ms") as d:
        got = events(d.stream("Tell a long story.", **ENDLESS))
        next(got)
        d.kill()
        chunks = list(got)
        last = json.loads(chunks[-1])
        ok("error" in last, "after drain_timeout a stream ends with an error", last)
        equal(d.wait_exit(), 0, "and the daemon exits 0")
        d.wait_log("drain_timeout is over, ending 1 requests")


def test_second_signal():
    with Halod() as d:
        got = events(d.stream("Tell a long story.", **ENDLESS))
        next(got)
        d.kill(signal.SIGINT)
        d.wait_log("draining")
        d.kill(signal.SIGINT)
        equal(d.wait_exit(), 6, "a second signal exits 6")


def test_stalled():
    """An idle engine beats several times a second: a limit of 1 ms is passed at once,
    as a hung device passes a sensible one."""
    with Halod("--heartbeat-stall", "1ms", wait=None) as d:
        equal(d.wait_exit(), 5, "a stalled engine exits 5")
        d.wait_log("no sign of life")
    with Halod("--heartbeat-stall", "0", env={"WATCHDOG_USEC": "1"}) as d:
        for _ in range(20):
            equal_status = d.get("/health")[0]
        equal(equal_status, 200, "heartbeat_stall = 0 never gives up")
        ok("WATCHDOG=1" not in d.notified(),
           "but the watchdog is not fed from a heartbeat that is too old")
        d.kill()
        equal(d.wait_exit(), 0, "and it stops as usual")


def test_unix_socket(tmp):
    path = os.path.join(tmp, "halod.sock")
    with Halod("--unix-socket", path) as d:
        equal(d.get("/health")[0], 200, "unix socket")
        d.kill()
        equal(d.wait_exit(), 0, "stops")
        ok(not os.path.exists(path), "the socket is removed")
    with Halod("--unix-socket", path) as d:
        got = events(d.stream("Tell a long story.", **ENDLESS))
        next(got)
        d.kill()
        d.wait_log("draining")
        d.kill()
        equal(d.wait_exit(), 6, "second signal")
        ok(not os.path.exists(path), "the socket is removed then, too")


def test_socket_activation():
    with socket.create_server(("127.0.0.1", 0)) as s:
        with Halod(listen=s) as d:
            d.address = "http://127.0.0.1:%d" % s.getsockname()[1]
            equal(d.get("/health")[0], 200, "serves the socket of systemd")
            d.kill()
            equal(d.wait_exit(), 0, "stops")


def test_default_model():
    """Without a model the program finds the one that comes with it."""
    with Halod("--model", "") as d:
        equal(d.get("/v1/models")[2]["data"][0]["id"], "halo-tiny", "default model")
    with Halod("--model-name", "tiny \"1\"", "--aliases", "gpt-4, gpt-5",
               "--log-format", "json") as d:
        status, _, body = d.chat("hi", model="gpt-5", max_tokens=1)
        equal(status, 200, "an alias is served")
        equal(body["model"], "tiny \"1\"", "under the model's own name")
        ok(all(json.loads(line) for line in d.log), "every line of a JSON log is JSON")


def main():
    with tempfile.TemporaryDirectory() as tmp:
        test_command_line(tmp)
        test_failed_starts(tmp)
        test_loading(tmp)
        test_unix_socket(tmp)
    test_serving()
    test_drain()
    test_drain_timeout()
    test_second_signal()
    test_stalled()
    test_socket_activation()
    test_default_model()
    done()


main()
