#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon as a process: settings, exit codes, signals, systemd."""
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import traceback

from daemon import CHECK, MODEL, PATIENCE, PROGRAM, SRCDIR, Daemon, Tap, UnixConnection, run

HEARER = os.path.join(SRCDIR, "tests", "golden", "vision", "qwen3asr")
READER = os.path.join(SRCDIR, "tests", "golden", "readers", "last")


def test_command_line(t, tmp):
    code, out, err = run("--version")
    t.ok(code == 0 and out.startswith("halod ") and not err, "--version", out + err)
    code, out, _ = run("--help")
    t.ok(code == 0 and "--max-queue N" in out, "--help", out)
    code, out, _ = run("-c", "/dev/null", "--print-config")
    with open(os.path.join(SRCDIR, "conf/halod.conf"), encoding="utf-8") as f:
        t.equal(out, f.read(), "--print-config is conf/halod.conf")
    code, out, _ = run("-c", os.path.join(SRCDIR, "conf/halod.conf"), "--check-config")
    t.equal(code, 0, "--check-config accepts conf/halod.conf")

    conf = os.path.join(tmp, "wrong.conf")
    with open(conf, "w", encoding="utf-8") as f:
        f.write("port = 1\nmax_que = 3\n")
    t.equal(run("-c", conf, "--check-config")[0], 2, "a wrong file exits 2")
    code, _, err = run("-c", conf)
    t.equal((code, err), (2, f"halod: error: {conf}:2: unknown key \"max_que\"; did you "
                             "mean max_queue?\n"), "so does a start with it, and says why")
    with open(conf, "w", encoding="utf-8") as f:
        f.write("portt = 1\nctx = many\nport = 80\nmax_seqs = 0\n")
    code, _, err = run("-c", conf, "--check-config")
    t.equal((code, [l.split(": ")[2] for l in err.splitlines()]),
            (2, ["%s:%d" % (conf, i) for i in (1, 2, 4)]), "all faults of a file are told")
    t.equal(run("--prot", "1")[0], 2, "an unknown flag exits 2")
    with open("/dev/full", "w", encoding="utf-8") as full:
        code = run("--help", stdout=full, capture_output=False)[0]
    t.equal(code, 1, "--help onto a full disk exits 1")


def test_failed_starts(t, tmp):
    base = ("-c", "/dev/null", "--port", "0")
    code, _, err = run(*base, "--model", tmp)
    t.ok(code == 3 and tmp in err, "a folder without a model exits 3 and is named", err)
    code, _, err = run(*base, "--model", "/nonexistent")
    t.ok(code == 3 and "/nonexistent" in err, "so does no folder", err)
    moved = os.path.join(tmp, "moved")
    share = os.path.join(moved, "share/halod/models/halo-tiny")
    os.makedirs(os.path.join(moved, "bin"))
    os.makedirs(share)
    program = shutil.copy(PROGRAM, os.path.join(moved, "bin/halod"))
    code, _, err = run(*base, program=program)
    t.ok(code == 3 and os.path.join(moved, "bin/../share/halod/models/halo-tiny") in err,
         "an install that was moved looks for its model in its own share/", err)
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = str(s.getsockname()[1])
        code, _, err = run("-c", "/dev/null", "--port", port, "--model", MODEL)
    t.ok(code == 4 and port in err and "choose another port by --port" in err,
         "an address in use exits 4, is named, and --port is", err)
    code, _, err = run("-c", "/dev/null", "--port", "0", "--host", "192.0.2.1",
                       "--model", MODEL)
    t.ok(code == 4 and "--host 0.0.0.0" in err,
         "an address of another machine exits 4 and says what takes all", err)
    code, _, err = run(*base, "--unix-socket", tmp + "/no/such/folder/s")
    t.equal(code, 4, "a unix socket that cannot be had exits 4")


def test_loading(t, tmp):
    """A model whose config.json is a FIFO that nobody writes loads for ever."""
    model = os.path.join(tmp, "slow")
    os.mkdir(model)
    os.mkfifo(os.path.join(model, "config.json"))
    with Daemon(model=model, wait=False) as d:
        a = d.chat()
        t.ok(a.status == 503 and "Loading" in a.error["message"] and
             a.headers["Retry-After"], "API routes answer 503 while loading", a.body)
        t.equal(d.get("/livez").status, 200, "the process is healthy")
        t.equal(d.get("/health").status, 503, "but not ready")
        t.ok(not any("READY=1" in m for m in d.told_until_now()),
             "systemd is not told READY=1")
        d.terminate()
        t.equal(d.wait(), 0, "SIGTERM while loading exits 0")


def hold_reader(tmp):
    """A model of embeddings whose config.json is a FIFO, and what is to be written there.
    halod loads it behind the model that chats, so its load stands still there."""
    model = os.path.join(tmp, "reader")
    shutil.copytree(READER, model)
    config = os.path.join(model, "config.json")
    with open(config, "rb") as f:
        text = f.read()
    os.remove(config)
    os.mkfifo(config)
    return model, config, text


def test_load_progress(t, tmp):
    """A watchdog of 10 ms makes the daemon look at its progress as often."""
    reader, config, text = hold_reader(tmp)
    with Daemon(env={"WATCHDOG_USEC": "10000"}, wait=False, mmap="no",
                heartbeat_stall="0", embedding_model=reader) as d:
        told = [d.told("Loading 50 %")]
        t.ok(re.search(r"reading, (0\.\d\d) of \1 GB", told[0]),
             "the stage and its bytes", told)
        health = d.get("/health").json
        t.ok(health["load"] == 0.5 and health["load_stage"] == "reading",
             "/health says the same", health)
        with open(config, "wb") as f:
            f.write(text)
        while "READY=1" not in told[-1]:
            told.append(d.notify.next())
        loads = [m for m in told if "STATUS=Loading" in m]
        shares = [int(re.search(r"Loading (\d+) %", m).group(1)) for m in loads]
        t.ok(shares == sorted(shares), "the share does not fall", loads)
        t.ok(all("EXTEND_TIMEOUT_USEC=" in m for m in loads),
             "each message asks for more time", loads)
        health = d.get("/health").json
        t.ok(health["load"] == 1 and health["load_stage"] == "done",
             "/health says that it is done", health)


def test_serving(t, tmp):
    with Daemon(env={"WATCHDOG_USEC": "2000000"}, self_check="yes") as d:
        ready = d.told("READY=1")
        t.ok("STATUS=Serving halo-tiny" in ready, "READY=1 and a status", ready)
        d.told("WATCHDOG=1")
        t.ok(True, "the watchdog is fed")
        t.equal(d.chat(max_tokens=1).status, 200, "answers")
        t.equal(d.metrics()['engine_state{state="ready"}'], 1, "metrics know the state")
        t.ok(d.metrics()["model_load_seconds"] > 0, "and how long the model took")
        d.process.send_signal(signal.SIGHUP)
        d.wait_log("SIGHUP")
        t.equal(d.get("/health").status, 200, "SIGHUP changes nothing")
        d.terminate()
        t.equal(d.wait(), 0, "SIGTERM exits 0")
        t.ok(any("STOPPING=1" in m and "EXTEND_TIMEOUT_USEC=" in m
                 for m in d.told_until_now()),
             "systemd hears of the stop, and how long it may last")


def test_reload_settings(t, tmp):
    """SIGHUP names what the file says anew, and what would stop a restart."""
    def hup(d, pattern):
        n = len(d.lines)
        d.process.send_signal(signal.SIGHUP)
        return d.wait_log(pattern, n)

    with Daemon(max_queue=3) as d:
        conf = os.path.join(d.dir, "halod.conf")
        with open(conf, encoding="utf-8") as f:
            before = f.read()
        d.told("READY=1")
        t.ok(hup(d, "SIGHUP: no setting has changed"), "nothing changed: it says so")

        def write(text):
            with open(conf, "w", encoding="utf-8") as f:
                f.write(text)
        write(before.replace("max_queue = 3", "max_queue = 4") + "log_level = debug\n")
        line = hup(d, "SIGHUP: changed")
        t.ok(line.endswith("only after a restart: max_queue, log_level"), "which ones", line)
        t.ok(d.told("only a restart takes up max_queue, log_level"), "systemctl status, too")
        write(before + "max_que = 4\n")
        line = hup(d, "SIGHUP: the settings have a fault")
        t.ok("error" in line and "did you mean max_queue?" in line, "a fault is told", line)
        os.remove(conf)
        t.ok("cannot open" in hup(d, "SIGHUP: the settings have a fault"), "so is no file")
        write(before)
        hup(d, "SIGHUP: no setting has changed")
        t.equal(d.chat(max_tokens=1).status, 200, "it serves on")
    models = os.path.join(tmp, "models")
    os.mkdir(models)
    os.symlink(MODEL, os.path.join(models, "one"))
    with Daemon(models_dir=models) as d:
        d.told("READY=1")
        os.remove(os.path.join(models, "one"))
        line = hup(d, "SIGHUP: a restart would fail")
        t.ok("error" in line and "no model is in it" in line, "a folder without models", line)
        t.ok(d.told("a restart would fail: models_dir"), "systemctl status, too")
        t.ok(not any("no setting has changed" in x for x in d.lines), "and nothing else is said")


def test_weight_cache(t, tmp):
    """systemd's cache folder, the first of two: what a start leaves there, the next maps. So it is
    with a model for audio, where the program reads audio."""
    cache = os.path.join(tmp, "cache")
    notes, answers = [], []
    beside = {"transcription_model": HEARER}
    code, _, errors = run("--check-config", "--transcription-model", HEARER)
    if "built without" in errors:
        beside = {}
    else:
        t.ok(code == 0, "a model for audio can be opened", errors)
    for _ in range(2):
        with Daemon(env={"CACHE_DIRECTORY": cache + ":" + tmp}, backend="cpu", **beside) as d:
            d.told("READY=1")
            d.wait_log("ready: ")
            notes.append([line for line in d.lines if "weights: " in line])
            answers.append(d.chat(max_tokens=8, temperature=0).json["choices"])
            deadline = time.monotonic() + PATIENCE
            while any("go to" in note for note in notes[-1]) and time.monotonic() < deadline and \
                    sum(name.endswith("-weights") for name in os.listdir(cache)) < len(notes[-1]):
                time.sleep(0.05)
            d.terminate()
            t.equal(d.wait(), 0, "exits 0")
    # Only with AVX-512 are numbers of 16 bits packed, as the model for audio has them.
    packs = any("avx512" in name for name in os.listdir(cache))
    t.equal([len(n) for n in notes], [1 + (packs and len(beside))] * 2,
            "each model that is packed has a note")
    # Linux may have no huge pages for a file at one of the starts, and says so.
    for first, second in zip(*notes):
        t.ok("small ones" in first or
             ("go to " + cache in first and ("mapped from " in second or "small ones" in second)),
             "the second start maps what the first has written, in huge pages", notes)
    t.equal(answers[0], answers[1], "the answer is the same")
    with Daemon(env={"CACHE_DIRECTORY": cache}, backend="cpu", weight_cache='""') as d:
        d.wait_log("ready: ")
        t.ok(not any("weights: " in line for line in d.lines), "empty: none")


def test_sampling(t, tmp):
    def texts(d):
        return {json.dumps(d.chat(max_tokens=12, seed=k).json["choices"]) for k in range(4)}

    with Daemon(temperature="2") as d:
        t.ok(len(texts(d)) > 1, "temperature holds where a request says nothing")
    with Daemon(temperature="2", top_k="1", min_p="0.05") as d:
        line = d.wait_log("sampling where a request says nothing: ")
        t.ok("temperature 2 (halod.conf), " in line and
             "top_k 1 (halod.conf), min_p 0.05 (halod.conf)" in line,
             "the log says which defaults hold, and from where", line)
        t.equal(len(texts(d)), 1, "so does top_k")
        t.ok("tool calls: hermes (the chat template)" in d.wait_log("tool calls: "),
             "and how the model writes calls")
    with Daemon(tool_format="none") as d:
        t.ok("tool calls: none (halod.conf)" in d.wait_log("tool calls: "), "the setting's, too")


def test_drain(t, tmp):
    with Daemon(drain_timeout="10m") as d:
        # Longer than what is asked beside it: ThreadSanitizer's tokens take ten times as long.
        stream = d.stream(max_tokens=200 if "races" in CHECK else 1000, ignore_eos=True)
        events = stream.events()
        next(events)
        d.terminate()
        d.wait_log("draining: 1 request,")
        t.equal(d.get("/health?ready").status, 503, "a draining daemon is not ready")
        a = d.chat()
        t.ok(a.status == 503 and a.headers["Retry-After"],
             "nor does it take new requests", a.body)
        t.equal(list(events)[-1], "[DONE]", "the running stream ends as it should")
        t.equal(d.wait(), 0, "then the daemon exits 0")


def test_drain_timeout(t, tmp):
    with Daemon(drain_timeout="200ms") as d:
        stream = d.long_stream()
        d.terminate()
        last = list(stream.events())[-1]
        t.ok("error" in last, "after drain_timeout a stream ends with an error", last)
        t.equal(d.wait(), 0, "and the daemon exits 0")
        d.wait_log("drain_timeout is over, ending 1 request$")


def test_request_timeout(t, tmp):
    for limit in "300ms", "1s", "3s", "10s":
        with Daemon(request_timeout=limit) as d:
            events = list(d.stream("Tell me a story.", ignore_eos=True, temperature=0,
                                   max_tokens=3500).events())
            short = d.chat(max_tokens=1)
        if events and short.status == 200:
            break  # else this machine is too busy for such a limit
    t.ok(events and "error" in events[-1] and events[-1]["error"]["code"] == "timeout",
         "request_timeout ends a stream with an error", events[-1:])
    t.equal(short.status, 200, "a request that is in time is served")


def test_second_signal(t, tmp):
    with Daemon() as d:
        stream = d.long_stream()
        d.process.send_signal(signal.SIGINT)
        d.wait_log("draining")
        d.process.send_signal(signal.SIGINT)
        t.equal(d.wait(), 6, "a second signal exits 6")
        stream.close()


# What the kernel does: it ends the process, or stops it until SIGCONT.
FAULTS = [signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE,
          signal.SIGSEGV, signal.SIGSYS]
BY_KERNEL = [*FAULTS, signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN,
             signal.SIGTTOU]
DRAIN = [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGPWR, signal.SIGXCPU]


def test_signals(t, tmp):
    """Each signal that there is."""
    with Daemon() as d:
        stream = d.long_stream()
        others = sorted(signal.valid_signals() - set(BY_KERNEL) - set(DRAIN))
        for number in others:
            d.process.send_signal(number)
        t.ok(next(stream.events())["choices"] and d.get("/health").status == 200,
             "none of %d signals stops it" % len(others))
        stream.close()
        t.equal(d.stop(), 0, "it ends well")
    for number in DRAIN[::2] if "races" in CHECK else DRAIN:  # one handler takes them all
        with Daemon() as d:
            stream = d.stream("Hi", ignore_eos=True, max_tokens=100)
            next(stream.events())
            d.process.send_signal(number)
            if number in (signal.SIGPWR, signal.SIGXCPU):
                d.wait_log("draining")
                d.process.send_signal(number)
            t.equal(list(stream.events())[-1], "[DONE]", "%s drains" % number.name)
            t.equal(d.wait(), 0, "and is a good end")
    # A sanitizer has its own words for faults.
    for number in [] if os.environ.get("ASAN_OPTIONS") else FAULTS:
        with Daemon() as d:
            d.process.send_signal(number)
            t.equal(d.wait(), -number, "%s is the kernel's" % number.name)


def test_stalled(t, tmp):
    """An idle engine beats a few times a second: a limit of 1 ms is passed at once, as
    a hung device passes a sensible one."""
    with Daemon(heartbeat_stall="1ms", wait=False) as d:
        t.equal(d.wait(), 5, "a stalled engine exits 5")
        t.ok(any("no sign of life" in line for line in d.lines if line), "and says so")
    with Daemon(heartbeat_stall="0") as d:
        alive = [d.get("/health").status for _ in range(20)]
        t.equal(alive, [200] * 20, "heartbeat_stall = 0 never gives up")
        d.terminate()
        t.equal(d.wait(), 0, "and it stops as usual")


def hold(pid, name):
    """Stop one thread of a process; the call that lets it go. None: not allowed here."""
    libc = ctypes.CDLL(None, use_errno=True)
    attach, detach, all_threads = 16, 17, 0x40000000
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/comm" % (pid, tid), encoding="ascii") as f:
            if f.read().strip() != name:
                continue
        if libc.ptrace(attach, int(tid), None, None) != 0:
            return None
        os.waitpid(int(tid), all_threads)
        return lambda: libc.ptrace(detach, int(tid), None, None)
    return None


def test_watchdog(t, tmp):
    """The engine's thread stands still, and heartbeat_stall is not the one to say so."""
    with Daemon(heartbeat_stall="10m", env={"WATCHDOG_USEC": "200000"}) as d:
        d.told("WATCHDOG=1")
        let_go = hold(d.process.pid, "engine")
        if not let_go:
            t.skip("no thread may be stopped here (ptrace)")
            return
        d.told_until_now()
        while d.get("/health").json["heartbeat_age_s"] < 1:
            time.sleep(0.01)
        fed = [m for m in d.told_until_now() if "WATCHDOG=1" in m]
        # The last beat may have been on its way. The loop has ticked ten times since.
        t.ok(len(fed) <= 1, "an engine that stands still does not feed the watchdog", fed)
        let_go()
        d.told("WATCHDOG=1")
        t.ok(True, "one that goes on does")


def test_unix_socket(t, tmp):
    path = os.path.join(tmp, "halod.sock")
    with Daemon(unix_socket=path) as d:
        t.equal(d.get("/health").status, 200, "unix socket")
        d.terminate()
        t.equal(d.wait(), 0, "stops")
        t.ok(not os.path.exists(path), "the socket is removed")
    with Daemon(unix_socket=path) as d:
        stream = d.long_stream()
        d.terminate()
        d.wait_log("draining")
        d.process.send_signal(signal.SIGTERM)
        t.equal(d.wait(), 6, "second signal")
        t.ok(not os.path.exists(path), "the socket is removed then, too")
        stream.close()


def test_socket_activation(t, tmp):
    with socket.create_server(("127.0.0.1", 0)) as s:
        with Daemon(listen=s, port=1) as d:
            t.equal(d.get("/health").status, 200, "serves the socket of systemd")
            d.terminate()
            t.equal(d.wait(), 0, "stops")


def test_memory(t, tmp):
    """More memory than there is: refused before the model is loaded, with the sum."""
    code, _, err = run("-c", "/dev/null", "--model", MODEL, "--unix-socket", tmp + "/s",
                       "--backend", "cpu", "--kv-cache", "1T")
    t.equal(code, 3, "a KV cache larger than memory ends the daemon with 3")
    t.ok("KV cache 1024.00 GiB" in err and "Set kv_cache to at most" in err,
         "and the log shows the sum and what to set", err)
    _, _, err = run("-c", "/dev/null", "--model", MODEL, "--unix-socket", tmp + "/s",
                    "--backend", "cpu", "--kv-cache", "1T", "--embedding-model", READER,
                    "--kv-dir", tmp + "/kv")
    beside = re.search(r"other models, images and buffers (\d+\.\d+) GiB", err)
    # 256 MiB of queue, and 16 MiB for each of two reads of 8 prompts and of two before.
    t.ok(beside and float(beside.group(1)) > (256 + 16 * 18) / 1024,
         "an embedding model and kv_dir stand in the sum", err)


def test_cut_model(t, tmp):
    """A file of the model is cut short while it is served."""
    model = shutil.copytree(MODEL, os.path.join(tmp, "model"))
    weights = [os.path.join(model, name) for name in os.listdir(model)
               if name.endswith(".safetensors")]
    with Daemon(model=model, weight_cache='""', exact="yes", backend="cpu") as d:
        d.wait_log("ready: ")
        for path in weights:
            os.truncate(path, 4096)
        try:
            d.chat(max_tokens=4)
        except OSError:
            pass
        t.equal(d.wait(), 3, "a model that is cut short ends the daemon with 3")
        t.ok(any("cut short" in line and ".safetensors" in line for line in d.lines if line),
             "and the log names the file", d.lines[-3:])


def test_written_model(t, tmp):
    """A file of the model is touched, replaced and written to while it is served."""
    model = shutil.copytree(MODEL, os.path.join(tmp, "model"))
    path = next(os.path.join(model, name) for name in sorted(os.listdir(model))
                if name.endswith(".safetensors"))
    with Daemon(model=model, weight_cache='""') as d:
        d.wait_metrics(num_requests_running=0)
        os.utime(path)
        d.wait_log("seems to be the same: if it was written to, restart")
        t.equal(d.metrics()["weights_touched_total"], 1, "a touched model is counted")
        shutil.copy(path, path + ".new")
        os.rename(path + ".new", path)
        t.equal(d.chat(max_tokens=4).status, 200, "one that is replaced by a rename is served on")
        t.equal(d.stop(), 0, "to a good end")
    with Daemon(model=model, weight_cache='""') as d:
        s = d.long_stream()
        with open(path, "r+b") as f:
            f.seek(os.path.getsize(path) // 4)
            f.write(os.urandom(os.path.getsize(path) // 2))
        t.ok("error" in list(s.events())[-1], "one that is written to ends its streams in words")
        t.equal(d.wait(), 3, "and the daemon with 3")
        t.ok(any("was written to while it is in use" in line and ".safetensors" in line
                 for line in d.lines if line), "and the log names the file", d.lines[-3:])


def is_listening(path):
    """A socket has its name a moment before it takes connections."""
    conn = UnixConnection(path)
    try:
        conn.connect()
    except OSError:
        return False
    conn.close()
    return True


def test_unread_log(t, tmp):
    """A pipe as stderr that nobody reads holds nobody up."""
    path = os.path.join(tmp, "s")
    p = subprocess.Popen([PROGRAM, "-c", "/dev/null", "--model", MODEL, "--unix-socket",
                          path], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE
    while not is_listening(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    conn = UnixConnection(path)
    n = 0
    for n in range(1200):  # the pipe and halod keep 320 KiB together
        conn.request("HEAD", "/openapi.json", headers={"X-Request-Id": "x" * 128})
        answer = conn.getresponse()
        answer.read()
        if answer.status != 200:
            break
    t.equal(n, 1199, "1,200 requests are served although nobody reads the log")
    conn.request("GET", "/metrics")
    metrics = conn.getresponse().read().decode()
    dropped = [l for l in metrics.splitlines() if "log_lines_dropped_total{" in l]
    t.ok(float(dropped[0].split()[-1]) > 0, "dropped lines are counted", dropped)
    conn.close()
    lines = iter(p.stderr.readline, b"")
    t.ok(any(b"lines of this log are missing here" in line for line in lines),
         "and the log says so when it is read again")
    p.terminate()
    p.stderr.read()
    t.equal(p.wait(PATIENCE), 0, "it ends well")


def test_names(t, tmp):
    with Daemon(model="") as d:
        t.equal(d.get("/v1/models").json["data"][0]["id"], "halo-tiny",
                "without a setting, the model that comes with halod")
    with Daemon(model_name='"tiny \\"1\\""', aliases='"gpt-4, gpt-5"',
                log_format="json") as d:
        a = d.chat(model="gpt-5", max_tokens=1)
        t.equal((a.status, a.json["model"]), (200, 'tiny "1"'),
                "an alias is served under the model's own name")
        t.equal(d.chat(model="gpt-6").status, 404, "another name is not")
        d.terminate()
        d.wait()
        t.ok(all(json.loads(line) for line in d.lines if line),
             "every line of a JSON log is JSON")


# What ends before threads begin, or has been asked of others: nothing for ThreadSanitizer.
# A socket of another kind is served by the same threads.
ALONE = (test_command_line, test_failed_starts, test_memory, test_names, test_cut_model,
         test_sampling, test_socket_activation, test_unix_socket)


def main():
    t = Tap()
    tests = [f for name, f in globals().items() if name.startswith("test_") and
             not ("races" in CHECK and f in ALONE)]
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="halod-test-") as tmp:
            try:
                test(t, tmp)
            except Exception:
                t.ok(False, test.__name__, traceback.format_exc())
    t.done()


main()
