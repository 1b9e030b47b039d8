#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tiny Voxtral over HTTP: ids of its prompts against mistral-common (tests/golden/make_tekken.py),
for each version of tekken.json; answers to audio files against Hugging Face Transformers
(make_voxtral.py); transcripts, by its mark; and what is refused."""
import json
import os
import shutil
import sys
import tempfile

from halod import BUILDDIR, SRCDIR, Halod, run
from sounds import form, is_built, sound, tone
from test_images import chat, g, text, user

VOXTRAL = os.path.join(SRCDIR, "tests/golden/vision/voxtral")
N_TOKENS = 3  # of an answer in spoken.json


def read(*path):
    with open(os.path.join(SRCDIR, "tests/golden", *path), encoding="utf-8") as f:
        return json.load(f)


def with_files(messages):
    return [dict(m, content=[sound(tone(p["seconds"])) if "seconds" in p else p
                             for p in m["content"]] if isinstance(m["content"], list)
                 else m["content"]) for m in messages]


def transcribe(d, seconds, to="transcriptions", **fields):
    return d.request("POST", "/v1/audio/" + to, *form(tone(seconds), **fields))


def words_of(d, tokens):
    return d.request("POST", "/detokenize", {"tokens": tokens}).json["content"]


def check_ids(t, d, version):
    cases = read("tekken", "cases.json")
    for c in cases["sounds"]:
        if c["version"] == version:
            got = d.request("POST", "/tokenize", {"messages": with_files(c["messages"])})
            t.equal(got.json["tokens"], c["ids"], "%s: %d messages" % (version,
                                                                       len(c["messages"])))
    for c in cases["transcripts"]:
        if c["version"] == version:
            spoken = {"language": c["language"]} if c["language"] else {}
            usage = transcribe(d, c["seconds"], **spoken).json["usage"]
            t.equal((usage["input_tokens"], usage["input_token_details"]["audio_tokens"]),
                    (len(c["ids"]), c["ids"].count(24)), "%s: a transcript" % version)


def test_ids(t, d):
    check_ids(t, d, "v7")
    for version in "v11", "v13":
        with tempfile.TemporaryDirectory() as tmp:
            made = shutil.copytree(VOXTRAL, os.path.join(tmp, "model"))
            tekken = read("vision/voxtral/tekken.json")
            tekken["config"]["version"] = version
            with open(os.path.join(made, "tekken.json"), "w", encoding="utf-8") as f:
                json.dump(tekken, f)
            other = Halod(model=made, max_output_tokens=N_TOKENS)
            check_ids(t, other, version)
            t.equal(other.stop(), 0, "%s ends well" % version)


def check_steps(t, d, case):
    a = chat(d, with_files(case["messages"]), max_tokens=N_TOKENS, logprobs=True,
             top_logprobs=5).json
    t.equal(a["usage"]["prompt_tokens"], len(case["ids"]), "as many tokens as the reference has")
    worst, steps = 0, a["choices"][0]["logprobs"]["content"]
    t.equal(len(steps), len(case["steps"]), "as many steps")
    for got, want in zip(steps, case["steps"]):
        words = {words_of(d, [token]): logprob for token, logprob in want["top"]}
        tops = {x["token"]: x["logprob"] for x in got["top_logprobs"]}
        t.equal((got["token"], set(tops)), (words_of(d, [want["token"]]), set(words)),
                "the same tokens are the best")
        worst = max([worst] + [abs(tops[x] - words[x]) for x in tops if x in words])
    t.ok(worst < 1e-4, "and their log-probabilities", worst)


def test_answers(t, d):
    for case in read("vision/voxtral/spoken.json")["cases"]:
        if "messages" in case:
            check_steps(t, d, case)
            continue
        fields = {"language": case["language"]} if case["language"] else {}
        j = transcribe(d, case["seconds"], **fields).json
        want = words_of(d, [s["token"] for s in case["steps"]])
        t.equal(j["text"], want.strip(), "a transcript of %s s" % case["seconds"])


def test_transcripts(t, d):
    plain = transcribe(d, 1.5).json
    a = transcribe(d, 1.5, prompt="Tunis")
    t.ok(a.json == plain and a.headers["X-Halod-Ignored"] == "prompt", "a prompt has no effect",
         (a.headers, a.body))
    t.equal(transcribe(d, 1.5, language="English").json,
            transcribe(d, 1.5, language="en").json, "a language by its name")
    t.equal(transcribe(d, 1.5, language="Filipino").status, 200, "a name with two codes")
    a = transcribe(d, 1.5, language="fil")
    t.ok(a.status == 400 and a.json["error"]["param"] == "language" and
         "no code of two letters" in a.json["error"]["message"], "a code of three letters", a.body)
    want = chat(d, user(sound(tone(1.5)), text(
        "Listen to the provided French speech and produce a translation in English text.")),
        max_tokens=N_TOKENS).json
    j = transcribe(d, 1.5, to="translations", language="fr").json
    t.equal((j["text"], j["usage"]["total_tokens"]),
            (want["choices"][0]["message"]["content"].strip(), want["usage"]["total_tokens"]),
            "a translation is asked for in words")
    a = transcribe(d, 1.5, stream="true")
    events = [json.loads(x[6:]) for x in a.body.decode().split("\n\n") if x]
    t.equal(events[-1]["text"], plain["text"], "a stream")
    a = transcribe(d, 9)
    t.ok(a.status == 400 and "max_audio_time" in a.json["error"]["message"], "too long", a.body)


def test_refused(t, d):
    a = chat(d, [{"role": "system", "content": "Be short."}] + user(sound(tone(0.5))))
    t.ok(a.status == 400 and "no system message beside audio" in a.json["error"]["message"],
         "a system message beside audio", a.body)
    t.equal(chat(d, [{"role": "system", "content": "Be short."}] + user(text("?"))).status, 200,
            "beside text it is taken")
    a = chat(d, user(text("[BEGIN_AUDIO][AUDIO][TRANSCRIBE]"), sound(tone(0.5)))).json
    t.ok(a["usage"]["prompt_tokens_details"]["audio_tokens"] == 15 and
         a["usage"]["prompt_tokens"] > 40, "a user's own marks are text", a)


def test_gguf(t, d):
    """The files that llama.cpp's converter makes: the same answers, named or beside each other."""
    files = [os.path.join(SRCDIR, "tests/golden/vision", x) for x in
             ("voxtral.gguf", "mmproj-voxtral.gguf")]
    own = Halod(model=files[0], mmproj=files[1], exact="yes", max_output_tokens=N_TOKENS)
    test_answers(t, own)
    check_ids(t, own, "v7")
    t.equal(own.get("/v1/models").json["data"][0]["architecture"]["input_modalities"],
            ["text", "audio"], "it hears, and sees nothing")
    t.ok(not [x for x in own.lines if x and "refused" in x], "and says nothing of images")
    t.equal(own.stop(), 0, "it ends well")
    with tempfile.TemporaryDirectory() as tmp:
        text_file = shutil.copy(files[0], tmp)
        beside = os.path.join(tmp, "mmproj.gguf")
        shutil.copy(files[1], beside)
        two = Halod(transcription_model=text_file, max_output_tokens=N_TOKENS)
        t.equal(transcribe(two, 1.5).json["usage"], transcribe(d, 1.5).json["usage"],
                "found beside the text, as transcription_model")
        t.equal(two.stop(), 0, "and it ends well")
        with open(files[1], "rb") as f:
            data = f.read()
        for key, value, words in (
                ("clip.audio.projector.stack_factor", 0, "is not a number from 1 to 64"),
                ("clip.audio.projector.stack_factor", 7, "max_source_positions"),
                ("clip.audio.attention.head_count", 5, "num_attention_heads"),
                ("clip.audio.num_mel_bins", 12, "num_mel_bins"),
                ("clip.audio.projection_dim", 40, "do not fit the text model's width of 32"),
                ("clip.audio.block_count", 3, "audio_tower.layers.2"),
                ("clip.audio.feed_forward_length", 64, "another size")):
            with open(beside, "wb") as f:
                f.write(g.altered(data, key, value))
            bad = Halod(wait=False, model=files[0], mmproj=beside)
            t.ok(bad.process.wait(60) == 3 and bad.wait_log("error.*" + words), "%s = %d: %s" % (
                key, value, words), bad.lines)
        deaf = Halod(model=text_file)
        t.ok(deaf.wait_log("audio is refused: .*another size"), "beside the text it is left out")
        t.equal(chat(deaf, user(text("?"))).status, 200, "and text is answered")
        t.equal(deaf.stop(), 0, "it ends well")
    bad = Halod(wait=False, model=files[0], mmproj=files[1], audio="off")
    t.ok(bad.process.wait(60) == 3 and bad.wait_log("error.*mmproj: .*leave on"),
         "a named file without use", bad.lines)


def test_other_template(t, d):
    """The converter puts another model's template into files of v11 and v13, which refuses audio:
    ids are those of mistral-common for the version by the marks in it."""
    with open(os.path.join(SRCDIR, "tests/golden/vision/voxtral.gguf"), "rb") as f:
        data = f.read()
    for version, marks in ("v11", "[CALL_ID][ARGS]"), ("v13", "[ARGS]"):
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "voxtral.gguf")
            template = "{{ raise_exception('no audio') }}{# %s #}" % marks
            with open(path, "wb") as f:
                f.write(g.with_text(data, "mistral-v7-tekken", template))
            own = Halod(model=path, exact="yes", max_output_tokens=N_TOKENS, mmproj=os.path.join(
                SRCDIR, "tests/golden/vision/mmproj-voxtral.gguf"))
            check_ids(t, own, version)
            for c in read("tekken", "cases.json")["chats"]:
                if c["version"] == version:
                    got = own.request("POST", "/tokenize", {
                        "messages": c["messages"], "tools": c["tools"] or []})
                    t.equal(got.json["tokens"], c["ids"], "%s: text" % version)
            t.ok(own.wait_log("mistral-common's for " + version), "which is said")
            t.equal(own.stop(), 0, "it ends well")
            deaf = Halod(model=path, audio="off")
            a = chat(deaf, user(text("?")))
            t.ok(a.status == 400 and "no audio" in a.json["error"]["message"],
                 "without audio the file's template stays", a.body)
            t.equal(deaf.stop(), 0, "it ends well")


def test_beside(t, d):
    """As transcription_model, beside a model that hears nothing."""
    two = Halod(transcription_model=VOXTRAL, max_output_tokens=N_TOKENS)
    t.equal(transcribe(two, 1.5).json, transcribe(d, 1.5).json, "as alone")
    t.equal(two.stop(), 0, "and it ends well")
    deaf = Halod(model=VOXTRAL, audio="off")
    a = chat(deaf, user(sound(tone(0.5))))
    t.ok(a.status == 400 and "text only" in a.json["error"]["message"], "audio = off", a.body)
    t.equal(chat(deaf, user(text("?"))).status, 200, "text is answered")
    t.equal(deaf.stop(), 0, "and it ends well")


if __name__ == "__main__":
    if not is_built(BUILDDIR):
        print("1..0 # SKIP halod was built without the libraries for audio")
        sys.exit(0)
    run([test_ids, test_answers, test_transcripts, test_refused, test_gguf, test_other_template,
         test_beside],
        model=VOXTRAL, exact="yes", max_audio_time="8s", max_output_tokens=N_TOKENS)
