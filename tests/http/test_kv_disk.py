#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kv_dir: conversations outlive a restart, a kill and damage. Each answer is compared with
the cold one, of a daemon that keeps nothing."""
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading

from halod import CHECK, PATIENCE, PROGRAM, SRCDIR, Halod, Tap

# With keys of an indexer in its pages, and the state of n-grams.
HYBRID = os.path.join(SRCDIR, "tests/golden/models/qwen4exp")
# Each layer has pages and a state.
BOTH = os.path.join(SRCDIR, "tests/golden/models/falconh1")
CONV = os.path.join(SRCDIR, "tests/golden/models/lfm2")  # its state is one array a layer
PROMPTS = [[(i * 37 + i // 7 + k * 11) % 480 for i in range(150 + 40 * k)] for k in range(3)]
TAP = Tap()


def complete(d, prompt, **more):
    """Log-probabilities, how many tokens were known, and how many came from the disk."""
    a = d.request("POST", "/v1/completions", {
        "prompt": prompt, "max_tokens": 20, "temperature": 0, "ignore_eos": True,
        "logprobs": 1, **more}).json
    return (a["choices"][0]["logprobs"]["token_logprobs"],
            a["usage"]["prompt_tokens_details"]["cached_tokens"],
            a["timings"]["disk_n"])


def why(d, prompt, **more):
    """Why no more of the prompt was found, and at which token."""
    t = d.request("POST", "/v1/completions", {
        "prompt": prompt, "max_tokens": 1, "temperature": 0, **more}).json["timings"]
    return t["cache_miss"], t["cache_miss_at"]


def start(folder, model=None, **more):
    return Halod(kv_dir=folder, max_seqs=4, **({"model": model} if model else {}), **more)


def end(d):
    """A sanitizer's report is an exit status, too."""
    TAP.equal(d.stop(), 0, "it ends well")


def files(folder):
    return sorted(os.path.join(folder, f) for f in os.listdir(folder)
                  if f.endswith(".halodkv"))


def cold_answers(model):
    d = Halod(prefix_cache="no", max_seqs=4, **({"model": model} if model else {}))
    out = [complete(d, p)[0] for p in PROMPTS]
    end(d)
    return out


def test_restart(t, model, cold, folder):
    d = start(folder, model)
    got = [complete(d, p)[0] for p in PROMPTS]
    t.equal(got, cold, "a daemon with kv_dir answers as one without")
    end(d)
    t.ok(files(folder), "files are left", os.listdir(folder))
    d = start(folder, model)
    for i, p in enumerate(PROMPTS):
        answer, cached, disk = complete(d, p)
        t.equal(answer, cold[i], "after a restart the answer is the cold one, bit for bit")
        t.ok(cached >= len(p) - 48 and disk >= 48, "and the prompt came from the disk",
             (len(p), cached, disk))
    answer, cached, disk = complete(d, PROMPTS[0])
    t.ok(cached > 0 and disk == 0, "the second time it comes from memory", (cached, disk))
    _, cached, disk = complete(d, PROMPTS[0], cache_salt="other")
    t.equal((cached, disk), (0, 0), "another salt finds none of it")
    turn = [9] * 100
    why(d, turn)
    t.equal(why(d, turn + PROMPTS[1]), ("new", 100), "a next turn is new behind the last one")
    edited = PROMPTS[2][:130] + [7] + PROMPTS[2][131:] + [8] * 40
    miss, at = why(d, edited)
    t.ok((miss, at) == ("differs", 130) or (model and miss == "no_state"),
         "and the token that another prompt has otherwise", (miss, at))
    m = d.metrics()
    t.ok(m["prompt_tokens_disk_total"] > 0 and m["kv_disk_read_bytes_total"] > 0 and
         m["kv_disk_files"] > 0, "/metrics tells")
    end(d)


def test_kill(t, model, cold, folder):
    """Killed with requests under way, some times over."""
    rnd = random.Random(5)
    for _ in range(4):
        d = start(folder, model)
        got = [complete(d, p) for p in PROMPTS]
        t.equal([g[0] for g in got], cold, "after a kill the answers are the cold ones")
        s = d.long_stream()
        for _ in range(rnd.randrange(1, 6)):
            next(s.events())
        d.process.send_signal(signal.SIGKILL)
        d.process.wait()
    t.ok(files(folder), "and what was written by then is there")


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 0x55]))


def test_damage(t, model, cold, folder):
    """Of each file a byte of the head or of the data is wrong; one is cut short, one empty,
    and one is not ours to believe."""
    d = start(folder, model)
    for p in PROMPTS:
        complete(d, p)
    end(d)
    for i, path in enumerate(files(folder)):
        size = os.path.getsize(path)
        if i == 0:
            os.truncate(path, size - 1)
        elif i == 1:
            os.chmod(path, 0o666)
        else:
            flip(path, (i * 977) % size if i % 2 else size - 1 - i)
    with open(os.path.join(folder, "0123456789abcdef.halodkv"), "wb"):
        pass
    d = start(folder, model)
    got = [complete(d, p)[0] for p in PROMPTS]
    t.equal(got, cold, "damaged files change no answer")
    t.ok(d.metrics()["kv_disk_refused_total"] > 0, "and are counted")
    end(d)


def test_two(t, model, cold, folder):
    a, b = start(folder, model), start(folder, model)
    for _ in range(2):
        for i, p in enumerate(PROMPTS):
            t.equal([complete(d, p)[0] for d in (a, b)], [cold[i]] * 2,
                    "two daemons on one folder answer as one")
    end(a)
    end(b)


def test_crowd(t, model, cold, folder):
    """Four clients at once, over a restart: pages are written and read while others compute,
    and each of three salts has files of its own."""
    def client(d, n, wrong):
        for turn in range(3):
            i = (n + turn) % len(PROMPTS)
            if complete(d, PROMPTS[i], cache_salt=str(n % 3))[0] != cold[i]:
                wrong.append((n, turn))

    for _ in range(2):
        d, wrong = start(folder, model), []
        threads = [threading.Thread(target=client, args=(d, n, wrong)) for n in range(4)]
        for x in threads:
            x.start()
        for x in threads:
            x.join()
        t.equal(wrong, [], "answers of a crowd are the cold ones")
        m = d.metrics()
        end(d)
    t.ok(m["prompt_tokens_disk_total"] > 0, "the second time some prompts come from the disk")


def test_why(t, cold):
    """Why a prompt was not found, over restarts, in the answer, log and metrics."""
    with tempfile.TemporaryDirectory() as tmp:
        os.chmod(tmp, 0o700)
        d = start(tmp)
        t.equal(why(d, PROMPTS[2]), ("new", 0), "at first all is new")
        end(d)
        d = start(tmp, lm_head="int8")
        t.equal(why(d, PROMPTS[2]), ("other_model", 0), "with other settings it is not used")
        end(d)
        d = start(tmp, log_prefix_miss="yes")
        text = "one two three four five six seven eight nine ten eleven twelve " * 3
        for last in ("The cat sat.", "The dog ran."):
            d.request("POST", "/v1/completions",
                      {"prompt": text + last + " And so on." * 9, "max_tokens": 4})
        line = d.wait_log(": differs;")
        was, now = line.split(": differs; it was ")[1].split(" and is ")
        t.ok("cat" in was and "dog" in now, "both texts are in the log", line)
        access = d.wait_log('"cache_miss":"differs"')
        t.ok('"cache_miss_at":' in access, "the access log tells", access)
        m = d.metrics()
        t.equal(m['prefix_cache_misses_total{reason="differs"}'], 1, "/metrics count it")
        t.ok(m['prefix_cache_missed_tokens_total{reason="differs"}'] > 20, "and its tokens")
        edited = PROMPTS[2][:100] + PROMPTS[0]
        t.equal(why(d, edited), ("differs", 100), "files tell what earlier runs were asked")
        end(d)
        d = start(tmp)
        why(d, ["secret " * 60])
        why(d, ["secret " * 30 + "spread " * 30])
        end(d)
        t.ok(not any("secret" in (line or "") for line in d.lines), "unasked, no text is logged")


def test_int8(t, cold):
    """Pages in int8 come back with their scales, and are no pages of another kv_type."""
    with tempfile.TemporaryDirectory() as tmp:
        os.chmod(tmp, 0o700)
        d = start(tmp, kv_type="int8")
        first = [complete(d, p)[0] for p in PROMPTS]
        t.ok(first != cold, "int8 changes an answer's log-probabilities")
        end(d)
        d = start(tmp, kv_type="int8")
        for i, p in enumerate(PROMPTS):
            answer, _, disk = complete(d, p)
            t.equal(answer, first[i], "int8: after a restart the answer is the same")
            t.ok(disk >= 48, "int8: the prompt came from the disk", disk)
        end(d)
        d = start(tmp)
        t.equal(why(d, PROMPTS[2]), ("other_model", 0), "float16 reads no pages of int8")
        end(d)


def test_useless_folder(t, cold):
    """One that was named ends the start (tests/daemon/test_settings.py has more of them); of one
    that systemd gives no use is made."""
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "kv")
        os.mkdir(path)
        os.chmod(path, 0o777)
        p = subprocess.run([PROGRAM, "-c", "/dev/null", "--port", "0", "--kv-dir", path],
                           capture_output=True, text=True, timeout=PATIENCE)
        t.ok(p.returncode == 2 and "others may write to" in p.stderr,
             "a folder others can write ends the start", p.stderr)
        d = start("auto", popen={"env": {**os.environ, "CACHE_DIRECTORY": tmp}})
        t.equal(complete(d, PROMPTS[0])[0], cold[0], "of systemd's no use is made")
        d.wait_log("kv_dir is not used")
        end(d)


def test_another_model(t, cold):
    """Another model on the same folder in between takes nothing and leaves all."""
    with tempfile.TemporaryDirectory() as tmp:
        os.chmod(tmp, 0o700)
        d = start(tmp)
        for p in PROMPTS:
            complete(d, p)
        end(d)
        d = start(tmp, HYBRID)
        t.equal([complete(d, p)[1:] for p in PROMPTS], [(0, 0)] * 3,
                "another model finds nothing of it")
        end(d)
        d = start(tmp)
        for i, p in enumerate(PROMPTS):
            answer, _, disk = complete(d, p)
            t.ok(answer == cold[i] and disk >= 48, "the first one goes on from its own files",
                 disk)
        end(d)


def test_limit(t, cold):
    with tempfile.TemporaryDirectory() as tmp:
        os.chmod(tmp, 0o700)
        d = start(tmp, kv_disk_limit="1M")
        for k in range(12):
            complete(d, PROMPTS[2][k:] + PROMPTS[1])
        t.equal(complete(d, PROMPTS[0])[0], cold[0], "with little room the answers are right")
        end(d)
        size = sum(os.path.getsize(f) for f in files(tmp))
        t.ok(0 < size <= 1 << 20, "and the limit holds", size)


def test_longrope(t):
    """ctx chooses the rotations of all keys: pages of the other ones are not taken."""
    model = os.path.join(SRCDIR, "tests/golden/models/phi3-long")
    with tempfile.TemporaryDirectory() as tmp:
        os.chmod(tmp, 0o700)
        found = []
        for ctx in (32, 32, 64):
            d = start(os.path.join(tmp, "kv"), model, ctx=ctx)
            found.append(complete(d, PROMPTS[0][:24], max_tokens=2)[2])
            end(d)
    t.equal(found, [0, 16, 0], "pages of short contexts are for short contexts")


def main():
    races_only = "races" in CHECK  # ThreadSanitizer
    is_short = "short" in CHECK  # the other sanitizers
    tests = (test_restart, test_kill, test_damage, test_two)
    for model in (HYBRID,) if races_only else (None, HYBRID) if is_short else (
            None, HYBRID, CONV, BOTH):
        cold = cold_answers(model)
        is_one = races_only or (is_short and not model) or model == BOTH
        chosen = (test_restart,) if is_one else tests
        for test in chosen + ((test_crowd,) if model == HYBRID else ()):
            print("# ---", test.__name__, model or "halo-tiny")
            with tempfile.TemporaryDirectory() as tmp:
                os.chmod(tmp, 0o700)
                test(TAP, model, cold, os.path.join(tmp, "kv"))
        if not model:
            test_why(TAP, cold)
            test_int8(TAP, cold)
            test_another_model(TAP, cold)
            test_useless_folder(TAP, cold)
            test_limit(TAP, cold)
            test_longrope(TAP)
    return TAP.done()


if __name__ == "__main__":
    sys.exit(main())
