#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Audio over HTTP, to a tiny Qwen3-Omni: what it answers against Hugging Face Transformers
(tests/golden/make_spoken.py), in the words of two APIs; the prefix cache; limits; and what is
refused."""
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile

import test_images
import test_videos
from halod import BUILDDIR, MODEL, PROGRAM, SRCDIR, Halod, run
from sounds import form, is_built, raw, sound, spelled, tone
from test_image_fetch import SERVER, answer
from test_images import SEE, chat, g, image, read_cases, text, user

OMNI = os.path.join(SRCDIR, "tests/golden/vision/qwen3omni")
ASR = os.path.join(SRCDIR, "tests/golden/vision/qwen3asr")
ALIGNER = os.path.join(SRCDIR, "tests/golden/vision/qwen3aligner")
HEAR = "<|audio_start|><|audio_pad|><|audio_end|>"
PAD = 509
AT = "messages[0].content[0].input_audio.data"


def messages_of(case):
    """The golden prompt as a message: sounds and images stand where the template shows them."""
    inner = case["text"].split("user\n", 1)[1].split("<|im_end|>", 1)[0]
    seconds, names, parts = iter(case["seconds"]), iter(case["images"]), []
    for i, spoken in enumerate(inner.split(HEAR)):
        if i:
            parts.append(sound(tone(next(seconds))))
        for k, words in enumerate(SEE.split(spoken)):
            if k:
                parts.append(image(next(names)))
            if words:
                parts.append(text(words))
    return user(*parts)


def word(d, token):
    return d.request("POST", "/detokenize", {"tokens": [token]}).json["content"]


def test_answers(t, d, file="spoken.json"):
    with open(os.path.join(SRCDIR, "tests/golden/audio", file)) as f:
        cases = json.load(f)["cases"]
    for case in cases:
        a = chat(d, messages_of(case), max_tokens=2, logprobs=True, top_logprobs=5).json
        t.equal((a["usage"]["prompt_tokens"],
                 a["usage"]["prompt_tokens_details"]["audio_tokens"]),
                (len(case["ids"]), case["ids"].count(PAD)),
                "%s s: as many tokens as the reference has" % case["seconds"])
        worst, steps = 0, a["choices"][0]["logprobs"]["content"]
        t.equal(len(steps), len(case["steps"]), "as many steps")
        for got, want in zip(steps, case["steps"]):
            words = {word(d, token): logprob for token, logprob in want["top"]}
            tops = {x["token"]: x["logprob"] for x in got["top_logprobs"]}
            t.equal((got["token"], set(tops)), (word(d, want["token"]), set(words)),
                    "the same tokens are the best")
            worst = max([worst] + [abs(tops[x] - words[x]) for x in tops if x in words])
        t.ok(worst < 2e-4, "and their log-probabilities", worst)


def test_gguf(t, d):
    """The files that llama.cpp's converter makes of it: sounds, images and video are answered as by
    the folder. spoken-gguf.json is of a tower with the window that such a file has."""
    files = [os.path.join(SRCDIR, "tests/golden/vision", x) for x in
             ("qwen3omni.gguf", "mmproj-qwen3omni.gguf")]
    with tempfile.TemporaryDirectory() as tmp:
        model, beside = (shutil.copy(x, tmp) for x in files)
        shutil.copy(os.path.join(OMNI, "preprocessor_config.json"), tmp)
        own = Halod(model=model, exact="yes", max_body="64M")
        test_answers(t, own, "spoken-gguf.json")
        test_images.test_answers(t, own, read_cases("qwen3omni"))
        test_videos.test_answers(t, own, "qwen3omni")
        t.equal(own.get("/v1/models").json["data"][0]["architecture"]["input_modalities"],
                ["text", "image", "video", "audio"], "what it takes")
        t.equal(own.stop(), 0, "it ends well")
        with open(files[1], "rb") as f:
            data = f.read()
        for key, value, words in (
                ("clip.audio.attention.head_count", 3, "encoder_attention_heads"),
                ("clip.audio.projection_dim", 40, "do not fit the text model's width of 32"),
                ("clip.audio.block_count", 3, "audio_tower.layers.2"),
                ("clip.audio.embedding_length", 64, "another size")):
            with open(beside, "wb") as f:
                f.write(g.altered(data, key, value))
            deaf = Halod(model=model)
            t.ok(deaf.wait_log("audio is refused: .*" + words), "%s = %d: %s" % (
                key, value, words), deaf.lines)
            t.equal(deaf.stop(), 0, "it sees, and ends well")


def test_formats(t, d):
    for name in ("pcm16.wav", "speech.mp3", "flac.flac", "opus.ogg"):
        a = chat(d, user(sound(raw(name), name.split(".")[1]), text("?")))
        t.ok(a.status == 200 and
             a.json["usage"]["prompt_tokens_details"]["audio_tokens"] == 3, name, a.body)


def test_cache(t, d):
    words = text("Which sound is it, and was there one like it that was here before?")
    first = chat(d, user(sound(tone(3)), words), logprobs=True).json
    again = chat(d, user(sound(tone(3)), words), logprobs=True).json
    other = chat(d, user(sound(tone(3, low=500)), words), logprobs=True).json
    t.ok(again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 48 and
         again["choices"][0]["logprobs"] == first["choices"][0]["logprobs"],
         "the same sound is found again, and answered with the same bits", again["usage"])
    t.ok(other["usage"]["prompt_tokens_details"]["cached_tokens"] == 0 and
         other["choices"][0]["logprobs"] != first["choices"][0]["logprobs"],
         "another one with as many tokens is not", other["usage"])


def test_spellings(t, d):
    """One prompt in other spellings has the same tokens: each of them finds it in the cache."""
    wav, words = tone(4), text("Listen, and say what it was.")
    n = chat(d, user(sound(wav), words)).json["usage"]["prompt_tokens"]
    data = "data:audio/wav;base64," + spelled(wav)
    for what, part in (
            ("audio_url", {"type": "audio_url", "audio_url": {"url": data}}),
            ("audio_url, a string", {"type": "audio_url", "audio_url": data}),
            ("a data URL as input_audio's data",
             {"type": "input_audio", "input_audio": {"data": data}})):
        usage = chat(d, user(part, words)).json.get("usage")
        t.ok(usage and usage["prompt_tokens"] == n and
             usage["prompt_tokens_details"]["cached_tokens"] >= 48, what, usage)
    a = d.request("POST", "/v1/responses", {
        "max_output_tokens": 4, "temperature": 0, "store": False, "input": [
            {"role": "user", "content": [sound(wav), {"type": "input_text",
                                                      "text": words["text"]}]}]}).json
    t.ok(a["usage"]["input_tokens"] == n and
         a["usage"]["input_tokens_details"]["cached_tokens"] >= 48, "Responses' input_audio", a)
    a = d.request("POST", "/v1/responses/input_tokens", {"input": [
        {"role": "user", "content": [sound(wav), text(words["text"])]}]}).json
    t.equal(a["input_tokens"], n, "which is counted, too")
    a = d.request("POST", "/tokenize", {"messages": user(sound(wav))}).json
    t.equal(a["tokens"].count(PAD), 52, "/tokenize shows its tokens")
    result = [{"role": "user", "content": "What is in it?"},
              {"role": "assistant", "tool_calls": [
                  {"id": "t1", "type": "function", "function": {"name": "record",
                                                                "arguments": "{}"}}]},
              {"role": "tool", "tool_call_id": "t1", "content": [sound(wav)]}]
    a = chat(d, result)
    t.ok(a.status == 200 and a.json["usage"]["prompt_tokens"] > 52,
         "the result of a tool may be a sound", a.body)
    t.equal(d.request("GET", "/props").json["modalities"], {"vision": True, "audio": True},
            "/props says that it hears")
    t.equal(d.get("/v1/models").json["data"][0]["architecture"]["input_modalities"],
            ["text", "image", "video", "audio"], "so does /v1/models")


def test_ignored(t, d):
    """Fields beside a sound's own are named, wherever the sound stands."""
    part = sound(tone(0.5))
    part["input_audio"]["rate"] = 1
    called = [{"role": "user", "content": "?"},
              {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
              {"type": "function_call_output", "call_id": "c", "output": [part]}]
    used = [{"role": "user", "content": "?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f",
                                               "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c",
                                          "content": [part]}]}]
    for path, body, at in (
            ("/v1/chat/completions", {"messages": user(part)}, "messages[0].content[0]"),
            ("/v1/responses", {"input": user(part)}, "input[0].content[0]"),
            ("/v1/responses", {"input": called}, "input[2].output[0]"),
            ("/v1/messages", {"messages": used, "max_tokens": 2},
             "messages[2].content[0].content[0]")):
        a = d.request("POST", path, body)
        t.ok(a.status == 200 and a.headers.get("X-Halod-Ignored") == at + ".input_audio.rate",
             "%s of %s" % (at, path), (a.headers, a.body))


def test_refused(t, d):
    at = "messages[0].content[0]"
    wav = tone(0.5)
    many = raw("many.flac")  # half a second
    for what, param, words in (
            ({"type": "input_audio", "input_audio": {"data": "a?b", "format": "wav"}}, AT,
             "not valid base64"),
            ({"type": "input_audio", "input_audio": {"data": spelled(wav), "format": "m4a"}},
             at + ".input_audio.format", "wav, mp3, flac, ogg and opus are read"),
            ({"type": "input_audio", "input_audio": {"format": "wav"}}, AT, ""),
            ({"type": "input_audio"}, at + ".input_audio", ""),
            ({"type": "audio_url", "audio_url": {"url": "https://example.org/a.wav"}},
             at + ".audio_url.url", "fetches no audio"),
            ({"type": "audio_url", "audio_url": "data:audio/wav,abc"}, at + ".audio_url",
             "in base64"),
            (sound(b""), AT, "not a WAV, MP3, FLAC"),
            (sound(raw("opus.ogg")[:60]), AT, "cannot be read"),
            (sound(raw("short.wav")), AT, "0.050 s long"),
            (sound(raw("nan.wav")), AT, "no numbers"),
            (sound(tone(9)), AT,
             "longer than 8 s, which the request has left of max_audio_time"),
            (sound(wav + bytes(400000)), AT, "more than 400000 (max_audio_bytes)"),
            (dict(sound(wav), audio_url="data:audio/wav;base64,"), at + ".type", "one of them"),
            ({"type": "audio_url", "input_audio": sound(wav)["input_audio"]}, at + ".audio_url",
             ""),
            ({"type": "input_audio", "audio_url": "data:audio/wav;base64,"},
             at + ".input_audio", ""),
            ({"type": "input_video"}, at + ".type", "text, images, video and audio only")):
        a = chat(d, user(what, text("?")))
        error = a.json.get("error", {})
        t.ok(a.status == 400 and error.get("param") == param and words in error["message"],
             "refused: %s" % (words or "no data"), a.body)
    a = chat(d, user(sound(tone(4)), sound(tone(3.9)), sound(many, "flac")))
    t.ok(a.status == 400 and a.json["error"]["param"] ==
         "messages[0].content[2].input_audio.data" and
         "longer than 0.1 s, which" in a.json["error"]["message"], "all sounds of a request share the time",
         a.body)
    few = [sound(tone(0.2))]
    for parts in (few * 5, few * 4 + [image("rgb.png")], [image("rgb.png")] * 4 + few):
        a = chat(d, user(*parts))
        t.ok(a.status == 400 and a.json["error"]["param"] == "messages[0].content[4]" and
             "more than 4 images, sounds and videos" in a.json["error"]["message"],
             "sounds and images have one bound", a.body)
    a = chat(d, [{"role": "system", "content": [sound(wav)]}] + user(text("?")))
    t.ok(a.status == 400 and "users and tools" in a.json["error"]["message"],
         "a sound in a system message", a.body)
    forged = chat(d, user(text(HEAR), sound(wav))).json
    plain = chat(d, user(text("x"), sound(wav))).json
    t.ok(forged["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"],
         "a user's own <|audio_pad|> is text", forged)


def transcribe(d, *file, to="transcriptions", **fields):
    return d.request("POST", "/v1/audio/" + to, *form(*file, **fields))


def test_transcripts(t, d):
    """A form, and the text alone as answer: what a chat with the same words says."""
    wav = tone(1.5)
    asked = {None: "Transcribe the audio into text.",
             "de": "Transcribe the German audio into text.",
             "zh": "请将这段中文语音转换为纯文本。"}
    for language, words in asked.items():
        want = chat(d, user(sound(wav), text(words)), max_tokens=6, ignore_eos=False).json
        a = transcribe(d, wav, model="qwen3omni", **({"language": language} if language else {}))
        j, usage = a.json, want["usage"]
        t.ok(j["text"] == want["choices"][0]["message"]["content"].strip() and
             j["usage"]["total_tokens"] == usage["total_tokens"] and
             j["usage"]["input_token_details"]["audio_tokens"] == 20, words, (j, want))
        t.ok(("finish_reason" in j) == (want["choices"][0]["finish_reason"] == "length"),
             "and says where it was cut off")
    a = transcribe(d, wav, response_format="text")
    t.ok(a.headers["Content-Type"].startswith("text/plain") and
         a.body.decode() == transcribe(d, wav).json["text"] + "\n", "as plain text", a.body)
    j = transcribe(d, wav, response_format="verbose_json", language="English").json
    t.equal((j["task"], j["language"], j["duration"]), ("transcribe", "english", 1.5), "verbose")
    j = transcribe(d, wav, to="translations", response_format="verbose_json").json
    t.equal((j["task"], j["language"]), ("translate", "unknown"), "a translation")
    long = transcribe(d, wav, prompt="Tunis and its weather").json["usage"]
    t.ok(long["input_tokens"] > j["usage"]["input_tokens"], "the prompt's words are shown", long)
    a = transcribe(d, wav, stream="true")
    events = [json.loads(x[6:]) for x in a.body.decode().split("\n\n") if x]
    t.ok(events[-1]["type"] == "transcript.text.done" and
         {e["type"] for e in events[:-1]} == {"transcript.text.delta"} and
         "".join(e["delta"] for e in events[:-1]).strip() == events[-1]["text"] ==
         transcribe(d, wav).json["text"] and "audio_tokens" in str(events[-1]["usage"]),
         "a stream has the same text", events)
    a = transcribe(d, wav, seed="1")
    t.ok(a.status == 200 and a.headers["X-Halod-Ignored"] == "seed", "what is ignored is named")


def test_wrong_forms(t, d):
    wav = tone(0.5)
    for file, fields, param, words in (
            (None, {"model": "qwen3omni"}, "file", "is missing"),
            (b"", {}, "file", "not a WAV"),
            (raw("nan.wav"), {}, "file", "no numbers"),
            (tone(9), {}, "file", "longer than 8 s"),
            (wav, {"response_format": "srt"}, "response_format", "set aligner_model"),
            (wav, {"response_format": "xml"}, "response_format", "must be one of"),
            (wav, {"timestamp_granularities": ["word"]}, "timestamp_granularities",
             "needs `response_format`"),
            (wav, {"timestamp_granularities": ["word"], "response_format": "verbose_json"},
             "timestamp_granularities", "set aligner_model"),
            (wav, {"include": ["logprobs"]}, "include", "not served"),
            (wav, {"language": "tlh"}, "language", "no code"),
            (wav, {"temperature": "hot"}, "temperature", "must be a number"),
            (wav, {"temperature": "-1"}, "temperature", ""),
            (wav, {"stream": "maybe"}, "stream", "true or false"),
            (wav, {"prompt": "\udcff"}, "prompt", "UTF-8"),
            (wav, {"language": ["de", "en"]}, "language", ""),
            (wav, {"language": "de", "language[]": "en"}, "language", "given twice"),
            (wav, {"language[]": "de", "language": "en"}, "language", "given twice"),
            (wav, {"unknown": "x" * 65537}, "unknown", "longer than 64 KB")):
        body, headers = form(file, **fields) if "prompt" not in fields else (
            form(file, prompt="@")[0].replace(b"@", b"\xff"), form()[1])
        a = d.request("POST", "/v1/audio/transcriptions", body, headers)
        error = a.json.get("error", {})
        t.ok(a.status == 400 and error.get("param") == param and words in error["message"],
             "refused: %s" % (words or fields), a.body)
    t.equal(transcribe(d, wav, model="whisper-1").json, transcribe(d, wav).json,
            "what clients name of their own is the model that hears")
    a = transcribe(d, wav, model="whisper-2")
    t.ok(a.status == 404 and a.json["error"]["code"] == "model_not_found", "another model", a.body)
    a = d.request("POST", "/v1/audio/transcriptions", {"file": "x"})
    t.ok(a.status == 415 and "multipart/form-data" in a.json["error"]["message"], "JSON", a.body)
    body, headers = form(wav)
    a = d.request("POST", "/v1/audio/transcriptions", body[:-20], headers)
    t.ok(a.status == 400 and "cut off" in a.json["error"]["message"], "a form without an end",
         a.body)
    deaf = Halod()
    a = transcribe(deaf, wav)
    t.ok(a.status == 501 and "hears nothing" in a.json["error"]["message"], "a model without ears",
         a.body)
    t.equal(deaf.stop(), 0, "and it ends well")


def test_too_long(t, d):
    """A prompt that is too long by its sounds is refused before they are heard."""
    small = Halod(model=OMNI, ctx=64)
    a = chat(small, user(sound(tone(6))))
    error = a.json["error"]
    t.ok(a.status == 400 and error["code"] == "context_length_exceeded" and
         error["param"] == "messages", "78 tokens of audio in a context of 64", a.body)
    a = chat(small, user(sound(tone(1.5))))
    t.equal(a.status, 200, "a shorter one is heard")
    t.equal(small.stop(), 0, "and it ends well")


def check_leaver(t, d):
    """A client that leaves in the middle of an answer: its audio counts nowhere."""
    seconds = [k for k in d.metrics() if k.startswith("audio_seconds_total")]
    before = [d.metrics()[k] for k in seconds]
    d.long_stream(messages=user(sound(tone(0.5))), headers={"X-Request-Id": "leaver"}).close()
    line = d.access("leaver")
    t.ok(line["finish"] == "abort" and line["output_tokens"] > 0 and "audio_s" not in line and
         "audio_per_s" not in line, "no speed of a broken-off request", line)
    t.equal([d.metrics()[k] for k in seconds], before, "its seconds do not count")


def test_fetch(t, d):
    with tempfile.TemporaryDirectory() as tmp:
        with open(os.path.join(tmp, "a.wav"), "wb") as f:
            f.write(tone(0.5))
        with open(os.path.join(tmp, "long.wav"), "wb") as f:
            f.write(tone(1))
        SERVER.rows.update({"/a": answer(tone(0.5), "audio/wav"),
                            "/b": answer(tone(0.5), "image/png"),
                            "/c": answer(tone(1), "audio/wav")})
        near = Halod(model=OMNI, image_dir=tmp, max_audio_bytes=20000,
                     image_urls=SERVER.url + "/, 127.0.0.1")

        def ask(name, url="file://%s/" % tmp):
            return chat(near, user({"type": "audio_url", "audio_url": {"url": url + name}}))
        a = ask("a", SERVER.url + "/")
        t.ok(a.status == 200 and
             a.json["usage"]["prompt_tokens_details"]["audio_tokens"] == 7, "by HTTP", a.body)
        for name, words in (("b", "the audio is no audio: the server sent image/png"),
                            ("c", "is longer than 20000 bytes (max_audio_bytes)")):
            a = ask(name, SERVER.url + "/")
            t.ok(a.status == 400 and words in a.json["error"]["message"], words, a.body)
        a = ask("a.wav")
        t.ok(a.status == 200 and
             a.json["usage"]["prompt_tokens_details"]["audio_tokens"] == 7,
             "a file below image_dir", a.body)
        for name, words in ("long.wav", "the audio is longer than 20000 bytes (max_audio_bytes)"), \
                           ("none.wav", "the audio cannot be read: No such file"):
            a = ask(name)
            t.ok(a.status == 400 and words in a.json["error"]["message"] and
                 a.json["error"]["param"] == "messages[0].content[0].audio_url.url", words, a.body)
        check_leaver(t, near)
        t.equal(near.stop(), 0, "and it ends well")


def test_asr(t, d):
    """Qwen3-ASR hears half a second at least."""
    asr = Halod(model=ASR, max_output_tokens=6)
    for seconds, tokens in ((0.2, 7), (0.5, 7), (1.5, 20)):
        a = chat(asr, user(sound(tone(seconds)))).json
        t.equal(a["usage"]["prompt_tokens_details"]["audio_tokens"], tokens,
                "Qwen3-ASR: %s s" % seconds)
    for fields, messages, opening in (
            ({}, [], ""), ({"prompt": "Tunis"}, [{"role": "system", "content": "Tunis"}], ""),
            ({"language": "fr"}, [], "language French<asr_text>")):
        body = {"messages": messages + user(sound(tone(1.5)))}
        prompt = asr.request("POST", "/apply-template", body).json["prompt"] + opening
        n = len(asr.request("POST", "/tokenize", {"content": prompt, "add_special": False,
                                                  "parse_special": True}).json["tokens"])
        j = transcribe(asr, tone(1.5), response_format="verbose_json", **fields).json
        t.equal(j["usage"]["input_tokens"], n + 19, "Qwen3-ASR is asked by %s" % (fields or "its "
                "audio alone"))
        t.ok(j["text"] and j["language"] == ("french" if opening else "unknown"), "and answers", j)
    a = transcribe(asr, tone(1.5), to="translations")
    t.ok(a.status == 501 and "translates nothing" in a.json["error"]["message"],
         "it translates nothing", a.body)
    t.equal(asr.stop(), 0, "and it ends well")


def seconds(text):
    """Of a time in a subtitle."""
    h, m, s = re.fullmatch(r"(\d\d):(\d\d):(\d\d[.,]\d{3})", text).groups()
    return int(h) * 3600 + int(m) * 60 + float(s.replace(",", "."))


def check_times(t, d):
    """Times by the aligner, whose numbers are in unit/align: of words and segments, as JSON and as
    subtitles."""
    wav = tone(2)
    text = transcribe(d, wav, language="de").json["text"]
    j = transcribe(d, wav, language="de", response_format="verbose_json",
                   timestamp_granularities=["word", "segment"]).json
    words, segments = j["words"], j["segments"]
    t.ok(j["text"] == text and words and segments, "words and segments", j)
    times = [x[k] for x in words for k in ("start", "end")]
    t.ok(times == sorted(times) and times[-1] < 8, "their times go forward", times)
    t.ok(all(re.sub(r"\W", "", w["word"]) == w["word"].replace("'", "") and w["word"] for w in words),
         "words have no punctuation", words)
    t.ok(" ".join(s["text"] for s in segments).split() == text.split() and
         [s["id"] for s in segments] == list(range(len(segments))) and
         segments[0]["start"] == times[0] and segments[-1]["end"] == times[-1] and
         all(s["tokens"] and s["seek"] == 0 and s["temperature"] == 0 for s in segments),
         "segments are all of the text", segments)
    for ask, has in ((["word"], ("words",)), (["segment"], ("segments",)), (None, ("segments",))):
        fields = {"timestamp_granularities": ask} if ask else {}
        k = transcribe(d, wav, language="de", response_format="verbose_json", **fields).json
        t.equal({x: k.get(x) for x in ("words", "segments")},
                {x: j[x] if x in has else None for x in ("words", "segments")}, "only %s" % (ask,))
    for kind, head, lines in (("srt", "", 3), ("vtt", "WEBVTT\n\n", 2)):
        a = transcribe(d, wav, language="de", response_format=kind)
        body = a.body.decode()
        cues = [x.split("\n") for x in body[len(head):].rstrip("\n").split("\n\n")]
        t.ok(a.headers["Content-Type"].startswith("text/") and body.startswith(head) and
             all(len(c) == lines for c in cues), kind, body)
        t.equal([[seconds(x) for x in c[-2].split(" --> ")] for c in cues],
                [[s["start"], s["end"]] for s in segments], "%s has the times" % kind)
    for fields, status, param, says in (
            ({"response_format": "json", "timestamp_granularities": ["word"]}, 400,
             "timestamp_granularities", "needs `response_format` verbose_json"),
            ({"response_format": "verbose_json", "timestamp_granularities": ["letter"]}, 400,
             "timestamp_granularities", "must be of word and segment"),
            ({"response_format": "srt", "stream": "true"}, 400, "stream", "not possible with times"),
            ({"response_format": "vtt", "language": "ja"}, 501, None, "Japanese"),
            ({"response_format": "vtt", "language": "th"}, 501, None, "Thai")):
        a = transcribe(d, wav, **fields)
        error = a.json["error"]
        t.ok((a.status, error["param"]) == (status, param) and says in error["message"], says, a.body)
    k = transcribe(d, wav, response_format="verbose_json", language="th")
    t.ok(k.status == 200 and "segments" not in k.json, "what nobody asked for may lack", k.body)
    check_pieces(t, d)


def check_pieces(t, d):
    """Audio that is longer than the aligner takes: pieces, each as if it came alone."""
    whole = tone(18)
    head, samples = whole[:44], bytearray(whole[44:])
    for s in 5, 10:  # the only quiet places near three fifths of eight seconds
        samples[s * 32000:s * 32000 + 6400] = bytes(6400)
    ends = [0, 5 * 32000, 10 * 32000, len(samples)]
    pieces = [head[:40] + struct.pack("<I", b - a) + bytes(samples[a:b])
              for a, b in zip(ends, ends[1:])]
    fields = {"response_format": "verbose_json", "timestamp_granularities": ["word", "segment"],
              "language": "de"}
    parts = [transcribe(d, p, **fields).json for p in pieces]
    a = transcribe(d, head + bytes(samples), **fields)
    j, usage = a.json, a.json["usage"]
    t.equal(j["text"], " ".join(p["text"] for p in parts if p["text"]), "the texts are joined")
    t.equal((j["duration"], j["language"]), (18.0, "german"), "all of it is heard")
    want, cut = [], 0
    for p, at, end in zip(parts, (0, 5, 10), (5, 10, 99)):
        cut += any(w["end"] + at > end for w in p["words"])
        want += [{"word": w["word"]} | {k: round(min(w[k] + at, end), 3) for k in ("start", "end")}
                 for w in p["words"]]
    t.equal(j["words"], want, "words have the times of their piece, shifted")
    times = [w[k] for w in j["words"] for k in ("start", "end")]
    t.ok(times == sorted(times) and cut and times[-1] > 10, "which go forward, also where a piece "
         "alone would go beyond its end", parts)
    for k in "input_tokens", "output_tokens", "total_tokens":
        t.equal(usage[k], sum(p["usage"][k] for p in parts), "%s is the sum" % k)
    t.equal(usage["input_token_details"]["audio_tokens"],
            sum(p["usage"]["input_token_details"]["audio_tokens"] for p in parts), "of audio, too")
    t.equal(j.get("finish_reason"), "length", "an answer that was cut off says so")
    k = transcribe(d, head + bytes(samples), response_format="verbose_json", language="de").json
    t.ok(k["segments"] == j["segments"] and " ".join(s["text"] for s in k["segments"]).split() ==
         j["text"].split(), "segments are all of the text, also where nobody asked", k)
    body = transcribe(d, head + bytes(samples), response_format="srt", language="de").body.decode()
    t.equal(len(re.findall(" --> ", body)), len(j["segments"]), "so are subtitles")
    k = transcribe(d, head + bytes(samples), language="th", response_format="verbose_json").json
    t.ok(k["text"] and "segments" not in k, "a language that the aligner lacks", k)
    k = transcribe(d, head + bytes(samples), response_format="json", language="de").json
    t.ok(k["usage"]["output_tokens"] <= 6, "without times it is one piece", k)
    a = transcribe(d, tone(61), response_format="srt")
    t.ok(a.status == 400 and a.json["error"]["param"] == "file" and "max_audio_time" in
         a.json["error"]["message"], "beyond max_audio_time", a.body)
    a = transcribe(d, raw("nan.wav"), response_format="srt")
    t.ok(a.status == 400 and a.json["error"]["param"] == "file" and "no numbers" in
         a.json["error"]["message"], "a broken file", a.body)


def test_beside(t, d):
    """transcription_model: a model of its own for forms, which sleeps and wakes by itself."""
    wav = tone(1.5)
    alone = Halod(model=ASR, max_output_tokens=6)
    want = transcribe(alone, wav).json
    t.equal(alone.stop(), 0, "Qwen3-ASR alone ends well")
    two = Halod(transcription_model=ASR, max_output_tokens=6, sleep_after="1s", aliases="chat",
                max_audio_time="1m",
                aligner_model=ALIGNER, embedding_model=os.path.join(SRCDIR, "tests/golden/readers/last"))
    asleep = "model %s has left memory"

    def listed():
        return {m["id"]: m for m in two.get("/v1/models").json["data"]}
    models = listed()
    t.equal(sorted(models), ["chat", "halo-tiny", "last", "qwen3asr"], "both are listed")
    t.equal([models[x]["architecture"]["input_modalities"] for x in ("halo-tiny", "qwen3asr")],
            [["text"], ["text", "audio"]], "with what each takes")
    for fields in ({}, {"model": "qwen3asr"}, {"model": ""}, {"model": "whisper-1"}):
        t.equal(transcribe(two, wav, **fields).json, want, "as alone: %s" % fields)
    line = json.loads(re.sub("^[^{]*", "", two.wait_log('"path":"/v1/audio/transcriptions"')))
    t.equal((line["model"], line["audio_s"]), ("qwen3asr", 1.5), "the access log names it")
    t.ok(1.5e3 / line["duration_ms"] <= line["audio_per_s"] * 1.02 + 0.01 and
         line["audio_per_s"] < 1e6, "and its speed", line)
    m = two.metrics()
    t.equal([m['audio_seconds_total{model="%s"}' % x] for x in ("qwen3asr", "halo-tiny")],
            [6, 0], "/metrics counts seconds of audio by model")
    t.ok(m['audio_request_seconds_total{model="qwen3asr"}'] >= 1.5 / line["audio_per_s"] * 0.99,
         "and of time", m)
    a = chat(two, user(sound(wav)), model="qwen3asr").json
    t.equal(a["usage"]["prompt_tokens_details"]["audio_tokens"], 20, "it hears in chats, too")
    for name, status, words in (("chat", 501, "`halo-tiny` hears nothing"),
                                ("whisper-2", 404, "/v1/models lists")):
        a = transcribe(two, wav, model=name)
        t.ok(a.status == status and words in a.json["error"]["message"], words, a.body)
    deep = {"prompt": "a" * 60000, "language": "a" * 10000}  # before the model, and the file behind
    for name, status, words in (("chat", 501, "`halo-tiny` hears nothing"),
                                ("whisper-2", 404, "/v1/models lists"),
                                ("whisper-1", 400, "no code of a language")):
        a = transcribe(two, wav + bytes(140000), **deep, model=name)
        t.ok(a.status == status and words in a.json["error"]["message"],
             "%s, deep in a long form: %s" % (name, words), a.body)
    t.equal(two.chat("Hello", max_tokens=2).json["model"], "halo-tiny", "a chat is the other's")
    t.equal(two.request("POST", "/v1/embeddings", {"input": "a"}).status, 200, "and vectors")
    for name in "halo-tiny", "qwen3asr":
        two.wait_log(asleep % name)
    t.equal(transcribe(two, wav).json, want, "it wakes")
    check_times(t, two)
    t.equal(listed()["halo-tiny"]["status"]["value"], "sleeping", "and does not wake the other")
    for _ in range(20):  # on a busy machine one sleeps again before the other is looked at
        t.equal(two.request("POST", "/v1/embeddings", {"input": "a"}).status, 200,
                "vectors wake their model")
        pages = two.metrics()["kv_pages"]
        if pages == 2048 + 256:
            break
        transcribe(two, wav)
    t.equal(pages, 2048 + 256, "each has the room that it had")
    t.equal(two.stop(), 0, "and it ends well")
    own = Halod(transcription_model=ASR, aliases="whisper-1")
    for fields in {}, deep:
        a = transcribe(own, wav + bytes(140000), **fields, model="whisper-1")
        t.ok(a.status == 501 and "`halo-tiny` hears nothing" in a.json["error"]["message"],
             "a model may be whisper-1 itself", a.body)
    t.equal(own.stop(), 0, "it ends well, too")


def test_not_beside(t, d):
    """What cannot transcribe is refused, by a check and at the start."""
    for flags, words in ((["--transcription-model", MODEL], "hears nothing"),
                         (["--transcription-model", ASR, "--model", ASR], "is also one of model"),
                         (["--transcription-model", ASR, "--aliases", "a, qwen3asr"],
                          "is also one of model"),
                         (["--transcription-model", ASR, "--model-name", "x"], "")):
        if "--model" not in flags:
            flags = flags + ["--model", os.path.join(SRCDIR, "tests/golden/models/qwen3-bf16")]
        p = subprocess.run([PROGRAM, "--check-config", *flags], capture_output=True, text=True)
        t.ok((p.returncode != 0) == bool(words) and words in p.stderr and
             ("transcription_model" in p.stderr) == bool(words), "%s: %s" % (flags, words), p.stderr)
    for settings, words in (({"transcription_model": OMNI, "audio_cache": "1T"}, "does not fit"),
                            ({"transcription_model": MODEL, "model": ASR}, "hears nothing")):
        x = Halod(wait=False, **settings)
        t.ok(x.process.wait(60) == 3 and x.wait_log("error.*transcription_model: .*" + words),
             "does not start: " + words, "\n".join(line or "(end)" for line in x.lines))


def test_deaf(t, d):
    """A model without ears, and one whose ears are off."""
    for kind, options, words in (
            ("halo-tiny", {}, "this model reads text only"),
            ("audio = off", {"model": OMNI, "audio": "off"}, "text, images and video only")):
        deaf = Halod(**options)
        a = chat(deaf, user(sound(tone(0.5))))
        t.ok(a.status == 400 and words in a.json["error"]["message"] and
             a.json["error"]["param"] == "messages[0].content[0].type",
             "%s: %s" % (kind, words), a.body)
        t.ok("audio" not in deaf.get("/v1/models").json["data"][0]["architecture"]
             ["input_modalities"], "and /v1/models says so")
        t.equal(deaf.stop(), 0, "and it ends well")


def test_not_built(t, d):
    """Built without the libraries for audio: a model that could hear says why it does not."""
    t.ok(d.wait_log("audio is refused: .*built without"), "the log says so")
    a = chat(d, user(sound(tone(0.5))))
    t.ok(a.status == 400 and "lacks the libraries" in a.json["error"]["message"], "audio in a chat",
         a.body)
    t.equal(chat(d, user(text("?"))).status, 200, "text is answered")
    a = transcribe(d, tone(0.5))
    t.ok(a.status == 501 and "lacks the libraries" in a.json["error"]["message"], "transcripts",
         a.body)
    t.equal(d.get("/v1/models").json["data"][0]["architecture"]["input_modalities"],
            ["text", "image", "video"], "/v1/models says what is left")
    p = subprocess.run([PROGRAM, "--check-config", "--model", MODEL, "--transcription-model", ASR],
                       capture_output=True, text=True)
    t.ok(p.returncode and "transcription_model: " in p.stderr and "built without" in p.stderr,
         "transcription_model", p.stderr)


if __name__ == "__main__":
    if not is_built(BUILDDIR):
        run([test_not_built], model=OMNI, max_output_tokens=6)
    run([test_answers, test_gguf, test_formats, test_cache, test_spellings, test_ignored, test_refused,
         test_transcripts, test_wrong_forms, test_too_long, test_fetch, test_asr, test_beside,
         test_not_beside, test_deaf],
        model=OMNI, exact="yes", max_audio_time="8s", max_audio_bytes=400000, max_output_tokens=6,
        max_images=4)
