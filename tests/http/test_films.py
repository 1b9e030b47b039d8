#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Films with their sound, to a tiny Qwen3-Omni: samples against what PyAV hears, and answers against
Hugging Face Transformers' (tests/golden/make_films.py); other ways to choose frames; the prefix
cache; what is refused, and broken files by the hundred."""
import json
import os
import random
import struct
import subprocess

from halod import FIBERS, Halod, run
from sounds import is_built, sound, tone
from test_images import VISION, chat, text, user
from test_video_files import BUILDDIR, PARAM, READER, WIRE, as_list, broken, film, raw
from test_videos import SHOWN

OMNI = os.path.join(VISION, "qwen3omni")
HEAR = {"mm_processor_kwargs": {"use_audio_in_video": True}}
SEEN, HEARD = 506, 509


def hear(name):
    """What halod-video says of a film's sound: samples a second, samples, and its fault."""
    with open(raw_path(name), "rb") as f:
        out = subprocess.run([READER, "1000", "100000", "20", "sound"], stdin=f,
                             stdout=subprocess.PIPE, check=True).stdout
    at, rate, samples = 0, 0, []
    if WIRE.unpack_from(out)[1] == 1:
        at = WIRE.size
    while at < len(out):
        _, code, _, _, n, each, words = WIRE.unpack_from(out, at)
        if code != 5:
            return rate, samples, words.rstrip(b"\0").decode()
        rate = each or rate
        samples += struct.unpack_from("<%df" % n, out, at + WIRE.size)
        at += WIRE.size + 4 * n
    return rate, samples, ""


def raw_path(name):
    return os.path.join(os.path.dirname(VISION), "video", name)


def test_sounds(t, d):
    for name, want in json.loads(raw("films.json")).items():
        rate, x, fault = hear(name)
        t.equal((rate, len(x), fault), (want["rate"], want["n"], ""), name + ": its sound")
        tenth = len(x) // 10
        loud = [(sum(s * s for s in x[i * tenth:(i + 1) * tenth]) / tenth) ** 0.5
                for i in range(10)]
        worst = max(abs(a - b) for a, b in zip(loud, want["loud"]))
        t.ok(worst < 1e-4, name + ": as loud as PyAV has it, tenth by tenth", worst)
    for name in "h264.mp4", "film-mute.mkv":
        t.equal(hear(name), (0, [], ""), name + ": without sound")
    t.ok("none of the codecs" in hear("film-ac3.mkv")[2], "a codec that is not read")


def messages_of(case):
    inner = case["text"].split("user\n", 1)[1].split("<|im_end|>", 1)[0]
    films, parts = iter(case["films"]), []
    for i, piece in enumerate(SHOWN.split(inner)):
        if i % 2:
            name, fps = next(films)
            parts.append(film(raw("film-" + name), fps=fps))
        elif piece:
            parts.append(text(piece))
    return user(*parts)


def test_answers(t, d, first=0, most=1e-4, n=2):
    with open(os.path.join(OMNI, "films.json")) as f:
        cases = json.load(f)["cases"][first:]
    for i, case in enumerate(cases, first):
        ask = messages_of(case)
        got = d.request("POST", "/tokenize", {"messages": ask, **HEAR}).json["tokens"]
        t.equal(got, case["ids"], "case %d: the reference's %d tokens" % (i, len(got)))
        a = chat(d, ask, max_tokens=2, logprobs=True, top_logprobs=5, **HEAR).json
        usage, steps = a["usage"], a["choices"][0]["logprobs"]["content"]
        t.equal((usage["prompt_tokens"], usage["prompt_tokens_details"]["audio_tokens"]),
                (len(case["ids"]), case["ids"].count(HEARD)), "all counted")
        t.equal(len(steps), 2, "as many steps")
        worst = 0
        for step, want in zip(steps[:n], case["steps"]):
            best = sorted((x["logprob"] for x in step["top_logprobs"]), reverse=True)
            worst = max([worst] + [abs(p - q) for p, (_, q) in zip(best, want["top"])])
        t.ok(worst < most, "and its log-probabilities", worst)


def test_between(t, d):
    """Pairs of frames whose time lies between two tokens of the sound."""
    with open(os.path.join(OMNI, "films.json")) as f:
        cases = json.load(f)["between"]
    for case in cases:
        got = d.request("POST", "/tokenize", {"messages": messages_of(case), **HEAR}).json["tokens"]
        t.equal(got, case["ids"], "%s: the reference's tokens" % case["films"][0][0])


def test_hip(t, d):
    """The GPU rounds to float16, so only the first token is sure to be the reference's."""
    if not os.path.exists(FIBERS):
        t.skip("libhip_cpu.so is not built")
        return
    gpu = Halod(model=OMNI, backend="hip", hip_library=FIBERS, ctx=256, max_seqs=2, max_body="64M")
    test_answers(t, gpu, first=3, most=0.05, n=1)
    t.equal(gpu.stop(), 0, "and it ends well")


def tokens(d, *parts, **more):
    return d.request("POST", "/tokenize", {"messages": user(*parts), **more}).json["tokens"]


def test_ways(t, d):
    """Sound that is not there, not wanted, or beside a list of frames; and frames chosen otherwise."""
    talk, mute = raw("film-talk.mkv"), raw("h264.mp4")
    plain = tokens(d, film(talk))
    t.equal((plain.count(HEARD), tokens(d, film(talk), mm_processor_kwargs={
        "use_audio_in_video": False})), (0, plain), "a film is seen only, if nothing else is said")
    t.equal(tokens(d, film(mute), **HEAR), tokens(d, film(mute)), "a film without sound is seen")
    frames = as_list("h264.mp4", [0, 12], 2)
    wav = sound(tone(1))
    t.equal(tokens(d, frames, wav, **HEAR), tokens(d, frames, wav),
            "a list of frames, and a sound of its own, stay as they are")
    both = tokens(d, film(mute), film(talk), wav, **HEAR)
    t.equal((both.count(HEARD), both.count(SEEN)),
            (29 + 13, tokens(d, film(mute)).count(SEEN) + 128 * 3),
            "one of two has sound, and another sound follows")
    for media, n in (({"fps": 1, "num_frames": -1}, 2), ({"num_frames": 2}, 1),
                     ({"num_frames": 1}, 1),
                     ({"num_frames": 3, "fps": 2}, 1), ({"num_frames": 700, "fps": 2}, 3),
                     ({"num_frames": 700}, 3), ({"fps": -1}, 3)):
        got = tokens(d, film(talk), media_io_kwargs={"video": media})
        t.equal(got.count(SEEN), 128 * n, "media_io_kwargs %s: %d pairs" % (media, n))
    many = tokens(d, film(mute), media_io_kwargs={"video": {"num_frames": 8}})
    t.ok(many == tokens(d, film(mute, num_frames=8)) != tokens(d, film(mute)),
         "num_frames alone is how many, though two a second are fewer", len(many))
    own = tokens(d, film(talk, fps=2), media_io_kwargs={"video": {"num_frames": 2}})
    t.equal(own.count(SEEN), 128 * 3, "a part's own words come first")


def test_cache(t, d):
    words, talk = text("What is said in it, and when is it said?"), raw("film-talk.mkv")
    first, again, slow, seen = (
        chat(d, user(film(talk, fps=fps), words), logprobs=True, **more).json
        for fps, more in ((2, HEAR), (2, HEAR), (1, HEAR), (2, {})))
    t.ok(again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 400 and
         again["choices"][0]["logprobs"] == first["choices"][0]["logprobs"],
         "a film that was heard is found again, and answered with the same bits", again["usage"])
    for other, what in (slow, "at another speed"), (seen, "that is only seen"):
        t.ok(other["usage"]["prompt_tokens_details"]["cached_tokens"] <= 128 + 16 and
             other["choices"][0]["logprobs"] != first["choices"][0]["logprobs"],
             "one %s is another" % what, other["usage"])
    for fps, more, want in ((1, HEAR, slow), (2, {}, seen)):
        alone = chat(d, user(film(talk, fps=fps), words), logprobs=True, cache_salt="alone",
                     **more).json
        t.equal(alone["choices"][0]["logprobs"], want["choices"][0]["logprobs"],
                "and is answered as alone")


def test_refused(t, d):
    talk = raw("film-talk.mkv")
    for part, words in ((film(raw("film-ac3.mkv")), "has sound in none of the codecs"),
                        (film(raw("film-slow.mkv")), ""), (film(raw("film-mute.mkv")), "")):
        a = chat(d, user(part), max_tokens=1, **HEAR)
        t.ok(a.status == (400 if words else 200) and words in a.body.decode(), words or "good",
             a.body)
    a = chat(d, user(*[film(talk)] * 3), **HEAR)
    t.ok(a.status == 400 and a.json["error"]["param"] == "messages[0].content[2].video_url.url" and
         "has left of max_audio_time" in a.json["error"]["message"], "too long together", a.body)
    long = user(film(talk), text("a " * 9000))
    a = chat(d, long, **HEAR)
    t.ok(a.status == 400 and a.json["error"]["code"] == "context_length_exceeded", "too long a prompt",
         a.body)
    for more, where, words in (
            ({"media_io_kwargs": {"audio": {}}}, "media_io_kwargs.audio", "not read: video is"),
            ({"media_io_kwargs": {"video": {"backend": "x"}}}, "media_io_kwargs.video.backend",
             "not read: fps and num_frames are"),
            ({"media_io_kwargs": {"video": {"fps": 0}}}, "media_io_kwargs.video.fps", ""),
            ({"media_io_kwargs": {"video": {"num_frames": 0}}}, "media_io_kwargs.video.num_frames",
             ""),
            ({"media_io_kwargs": 3}, "media_io_kwargs", ""),
            ({"media_io_kwargs": {"video": {"fps": 2}}, "mm_processor_kwargs": {"fps": 2}},
             "media_io_kwargs.video", "send one of them"),
            ({"mm_processor_kwargs": {"use_audio_in_video": 1}},
             "mm_processor_kwargs.use_audio_in_video", "")):
        a = chat(d, user(film(talk)), **more)
        t.ok(a.status == 400 and a.json["error"]["param"] == where and
             words in a.json["error"]["message"], "refused: %s" % more, a.body)
    deaf = Halod(model=os.path.join(VISION, "qwen3vl"), exact="yes")
    a = chat(deaf, user(film(talk)), **HEAR)
    t.ok(a.status == 400 and "does not hear the sound" in a.json["error"]["message"],
         "a model that hears nothing", a.body)
    t.equal(deaf.stop(), 0, "and it ends well")


def test_broken(t, d, n=120):
    """Whatever a film holds, it is counted or refused in words, and harms no other request."""
    rng = random.Random(11)
    names = sorted(json.loads(raw("films.json")))
    ask = user(text("Still here?"))
    before = chat(d, ask, logprobs=True).json["choices"][0]["logprobs"]
    all_answers = [d.request("POST", "/tokenize", {"messages": user(film(
        broken(rng, raw(names[i % len(names)])))), **HEAR}) for i in range(n)]
    words = {a.json["error"]["message"] for a in all_answers if a.status != 200}
    t.equal(sorted({a.status for a in all_answers}), [200, 400], "counted or refused")
    t.ok(all("video" in w or "audio" in w for w in words), "in words", words)
    t.equal(chat(d, ask, logprobs=True).json["choices"][0]["logprobs"], before,
            "others are answered as before")


if __name__ == "__main__":
    if not os.path.exists(READER) or not is_built(BUILDDIR):
        print("1..0 # SKIP built without libav or without audio")
    else:
        run([test_sounds, test_answers, test_between, test_hip, test_ways, test_cache, test_refused,
             test_broken],
            model=OMNI, exact="yes", max_audio_time="6s", max_body="64M")
