#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of video over HTTP: their frames against what PyAV decodes (tests/golden/video), answers
against those of the same frames as a list, which frames are chosen, what is refused, and broken
files by the hundred."""
import base64
import concurrent.futures
import json
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import time
import zlib

from halod import BUILDDIR, PROGRAM, SRCDIR, Halod, run
from test_image_fetch import SERVER, answer
from test_images import MODEL, VISION, chat, text, user

FOLDER = os.path.join(SRCDIR, "tests/golden/video")
READER = os.path.join(BUILDDIR, "halod-video")
WIRE = struct.Struct("<IIiiqd96s")
PARAM = "messages[0].content[0]"


def raw(name):
    with open(os.path.join(FOLDER, name), "rb") as f:
        return f.read()


def url(data, kind="video/mp4"):
    return "data:%s;base64,%s" % (kind, base64.b64encode(data).decode())


def film(data, **more):
    return {"type": "video_url", "video_url": {"url": url(data)}, **more}


def frames_of(name, width, height, numbers):
    """Pixels, as halod-video writes them for halod."""
    with open(os.path.join(FOLDER, name), "rb") as f:
        out = subprocess.run([READER, "100", "10000", "20", str(width), str(height),
                              ",".join(map(str, numbers))], stdin=f, stdout=subprocess.PIPE,
                             check=True).stdout
    n, all_frames = 3 * width * height, []
    for at in range(0, len(out), WIRE.size + n):
        assert WIRE.unpack_from(out, at)[1] == 2, out[at:at + WIRE.size]
        all_frames.append(out[at + WIRE.size:at + WIRE.size + n])
    assert len(all_frames) == len(numbers)
    return all_frames


def png(rgb, width, height):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    rows = b"".join(b"\0" + rgb[3 * width * y:3 * width * (y + 1)] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def quarters(rgb, width, height):
    """Mean red, green and blue of each quarter."""
    out = []
    for top in 0, height // 2:
        for left in 0, width // 2:
            rows = [rgb[3 * (width * y + left):3 * (width * y + left + width // 2)]
                    for y in range(top, top + height // 2)]
            out += [sum(sum(r[c::3]) for r in rows) / (width * height / 4) for c in range(3)]
    return out


def test_frames(t, d):
    for name, want in json.loads(raw("frames.json")).items():
        n, size = len(want["blocks"]), (want["width"], want["height"])
        with open(os.path.join(FOLDER, name), "rb") as f:
            out = subprocess.run([READER, "100", "10000", "20"], stdin=f,
                                 stdout=subprocess.PIPE, check=True).stdout
        _, code, w, h, found, fps, _ = WIRE.unpack(out)
        t.equal((code, w, h, found, fps), (1, *size, n, want["fps"]), name + ": what it is")
        for numbers in range(n), [0, n // 3, n // 3, n - 1], [n // 2]:
            got = [quarters(p, *size) for p in frames_of(name, *size, numbers)]
            worst = max(abs(a - b) for g, i in zip(got, numbers)
                        for a, b in zip(g, want["blocks"][i]))
            t.ok(worst < 0.6, "%s: %d frames as PyAV has them" % (name, len(numbers)), worst)


def as_list(name, numbers, fps):
    want = json.loads(raw("frames.json"))[name]
    size = want["width"], want["height"]
    return {"type": "video", "fps": fps, "video": [
        url(png(p, *size), "image/png") for p in frames_of(name, *size, numbers)]}


def test_answers(t, d, names=("h264.mp4", "turned.mp4", "vp8.webm", "hevc.mp4")):
    for name in names:
        rate = json.loads(raw("frames.json"))[name]["fps"]
        for wish, numbers, fps in (({"fps": rate}, range(24), rate),
                                   ({"num_frames": 2}, [0, 23], rate / 23)):
            words = text("What happens?")
            a = chat(d, user(film(raw(name), **wish), words), logprobs=True)
            b = chat(d, user(as_list(name, numbers, fps), words), logprobs=True)
            t.ok(a.status == 200 and a.json["usage"]["prompt_tokens"] ==
                 b.json["usage"]["prompt_tokens"] and a.json["choices"][0]["logprobs"] ==
                 b.json["choices"][0]["logprobs"], "%s, %s: answered as its frames in a list" % (
                     name, wish), a.body)


def test_omni(t, d):
    omni = Halod(model=os.path.join(VISION, "qwen3omni"), exact="yes", max_body="64M")
    words, data = text("How long is it?"), raw("vp9.webm")
    a = chat(omni, user(film(data, fps=12), words), logprobs=True)
    b = chat(omni, user(as_list("vp9.webm", range(24), 12), words), logprobs=True)
    t.equal(a.json["choices"][0]["logprobs"], b.json["choices"][0]["logprobs"],
            "Qwen3-Omni answers as to its frames in a list")
    slow = chat(omni, user(film(data, num_frames=4), words), logprobs=True)
    other = chat(omni, user(as_list("vp9.webm", [0, 6, 12, 18], 2), words), logprobs=True)
    t.equal(slow.json["choices"][0]["logprobs"], other.json["choices"][0]["logprobs"],
            "it sees the first frame of each share")
    a = chat(omni, user(film(data, num_frames=26), words))
    t.ok(a.status == 400 and "24 frames, fewer than the 26" in a.json["error"]["message"],
         "more frames than there are", a.body)
    t.equal(omni.stop(), 0, "and it ends well")


def prompt_of(d, part, **more):
    return d.request("POST", "/apply-template", {"messages": user(part), **more})


def test_choice(t, d):
    """Which frames, by the times that the prompt has."""
    data = raw("h264.mp4")
    rows = (({}, {}, ["0.3", "1.6"]),                          # 0 8 15 23: four at least
            ({"fps": 4}, {}, ["0.1", "0.7", "1.2", "1.8"]),    # 0 3 7 10 13 16 20 23
            ({"num_frames": 3}, {}, ["0.5", "1.9"]),           # 0 12 23 23
            ({}, {"mm_processor_kwargs": {"fps": 4}}, ["0.1", "0.7", "1.2", "1.8"]),
            ({}, {"mm_processor_kwargs": {"num_frames": 3}}, ["0.5", "1.9"]),
            ({"num_frames": 3}, {"mm_processor_kwargs": {"fps": 4}}, ["0.5", "1.9"]),
            ({}, {"mm_processor_kwargs": {"use_audio_in_video": False}}, ["0.3", "1.6"]))
    for own, more, want in rows:
        a = prompt_of(d, film(data, **own), **more)
        words = [w.split("<")[-1] for w in a.json["prompt"].split(" seconds>")[:-1]]
        t.equal(words, want, "times with %s %s" % (own, more))
    for part in ({"type": "video_url", "video_url": url(data)},
                 {"type": "video", "video": url(data)}):
        t.equal(prompt_of(d, part).json, prompt_of(d, film(data)).json, "another spelling")


def test_listed(t, d):
    a = d.get("/v1/models").json["data"][0]["architecture"]
    t.equal((a["input_modalities"], a["video_files"]), (["text", "image", "video"], True),
            "/v1/models says that files are read")
    with open(os.path.join(BUILDDIR, "build-paths.h"), encoding="utf-8") as f:
        installed = re.search('HALOD_LIBDIR "(.*)"', f.read())[1] + "/halod-video"
    if os.path.exists(installed):
        t.skip("%s is installed, and halod finds it" % installed)
        return
    with tempfile.TemporaryDirectory() as elsewhere:
        alone = Halod(model=MODEL, program=shutil.copy(PROGRAM, elsewhere))
        a = alone.get("/v1/models").json["data"][0]["architecture"]
        t.equal((a["input_modalities"], a["video_files"]), (["text", "image", "video"], False),
                "and that they are not, where halod-video is not beside halod")
        a = chat(alone, user(film(raw("h264.mp4"))))
        t.ok(a.status == 400 and "halod-video is not installed" in a.json["error"]["message"],
             "which a film is told, too", a.body)
        t.equal(alone.stop(), 0, "and it ends well")


def test_fetched(t, d):
    SERVER.rows["/a.webm"] = answer(raw("vp9.webm"), "video/webm")
    SERVER.rows["/a.png"] = answer(b"x", "image/png")
    far = {"type": "video_url", "video_url": {"url": SERVER.url + "/a.webm"}}
    a = chat(d, user(far, text("Where?")), logprobs=True)
    b = chat(d, user(film(raw("vp9.webm")), text("Where?")), logprobs=True)
    t.equal(a.json["choices"][0]["logprobs"], b.json["choices"][0]["logprobs"], "from its address")
    t.equal(SERVER.paths(), ["/a.webm"], "it is asked for once")
    far["video_url"]["url"] = SERVER.url + "/a.png"
    a = chat(d, user(far))
    t.ok(a.status == 400 and "the video is no video: the server sent image/png" in
         a.json["error"]["message"], "no video there", a.body)


def test_refused(t, d):
    good = raw("h264.mp4")
    sound = b"\x1a\x45\xdf\xa3" + b"\0" * 60
    for part, where, words in (
            (film(b"GIF89a" + bytes(50)), ".video_url.url", "no MP4, WebM or Matroska file"),
            (film(b""), ".video_url.url", "no bytes"),
            (film(sound), ".video_url.url", "is broken"),
            (film(good[:2000]), ".video_url.url", "the video"),
            (film(good + bytes(100000)), ".video_url.url", "more than 100000 (max_video_bytes)"),
            ({"type": "video", "video": "data:video/mp4;base64,a?b"}, ".video", "not valid base64"),
            ({"type": "video", "video": "data:video/mp4,abc"}, ".video", "a data URL in base64"),
            ({"type": "video", "video": "file:///tmp/a.mp4"}, ".video", "fetches no video"),
            ({"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
             ".video_url.url", "fetches no video from there"),
            (film(good, num_frames=0), ".num_frames", ""),
            (film(good, num_frames=769), ".num_frames", ""),
            (film(good, num_frames=2, fps=1), ".num_frames", "send one of them"),
            ({**as_list("h264.mp4", [0], 2), "fps": None, "num_frames": 1}, ".num_frames",
             "is for files")):
        a = chat(d, user(part))
        e = a.json["error"]
        t.ok(a.status == 400 and e["param"] == PARAM + where and words in e["message"],
             "refused: %s" % words, a.body)
    for kwargs, where, words in (({"fps": 0}, ".fps", ""), ({"size": 3}, ".size", "not read"),
                                 ({"use_audio_in_video": True}, ".use_audio_in_video",
                                  "does not hear the sound"), (3, "", "")):
        a = chat(d, user(film(good)), mm_processor_kwargs=kwargs)
        t.ok(a.status == 400 and a.json["error"]["param"] == "mm_processor_kwargs" + where and
             words in a.json["error"]["message"], "mm_processor_kwargs %s" % kwargs, a.body)
    a = chat(d, user(*[film(good)] * 5))
    t.ok(a.status == 400 and "more than 4 images" in a.json["error"]["message"], "five", a.body)
    a = chat(d, user(film(good, num_frames=768)))
    t.ok(a.status == 400 and a.json["error"]["code"] == "context_length_exceeded",
         "too long a prompt, before a frame is decoded", a.body)
    small = Halod(model=MODEL, exact="yes", max_image_side=60)
    a = chat(small, user(film(good)))
    t.ok(a.status == 400 and "more pixels" in a.json["error"]["message"], "too large", a.body)
    t.equal(small.stop(), 0, "and it ends well")
    blind = Halod(model=os.path.join(VISION, "gemma3"), exact="yes")
    a = chat(blind, user(text("a")), mm_processor_kwargs={"fps": 2})
    t.ok(a.status == 400 and "takes no video" in a.json["error"]["message"], "no video", a.body)
    t.equal(blind.stop(), 0, "and it ends well")


def broken(rng, data):
    if rng.random() < 0.2:
        return data[:rng.randrange(1, len(data))]
    data = bytearray(data)
    for _ in range(rng.choice((1, 3, 20, 200))):
        data[rng.randrange(len(data))] = rng.choice((0, 255, rng.randrange(256)))
    return bytes(data)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return f.read().split()


def test_broken(t, d, n=200):
    """Whatever a file holds, it is answered or refused in words, and harms no other request."""
    rng = random.Random(7)
    names = sorted(json.loads(raw("frames.json")))
    files = [broken(rng, raw(names[i % len(names)])) for i in range(n)]
    ask = user(text("Still here?"))
    before = chat(d, ask, logprobs=True).json["choices"][0]["logprobs"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        all_answers = list(pool.map(lambda f: chat(d, user(film(f, num_frames=3)), max_tokens=1),
                                    files[::2]))
        all_answers += pool.map(lambda f: prompt_of(d, film(f, num_frames=3)), files[1::2])
    statuses = [a.status for a in all_answers]
    words = {a.json["error"]["message"] for a in all_answers if a.status != 200}
    t.equal(sorted(set(statuses)), [200, 400], "answered or refused")
    t.ok(len(words) > 2 and all("video" in w for w in words), "in words", words)
    t.equal(chat(d, ask, logprobs=True).json["choices"][0]["logprobs"], before,
            "others are answered as before")
    end = time.time() + 20
    while children(d.process.pid) and time.time() < end:
        time.sleep(0.05)
    t.equal(children(d.process.pid), [], "no process is left")


if __name__ == "__main__":
    if not os.path.exists(READER):
        print("1..0 # SKIP built without libav")
    else:
        run([test_frames, test_answers, test_omni, test_choice, test_listed, test_fetched, test_refused,
             test_broken],
            model=MODEL, exact="yes", max_images=4, max_body="64M", max_video_bytes=100000,
            image_urls=SERVER.url + "/")
