#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images over HTTP, to a tiny Qwen3-VL and to towers of other kinds: what they answer against
Hugging Face Transformers (tests/golden/make_vision.py, make_vision_kinds.py), in the words of
three APIs; the prefix cache; limits; and what is refused."""
import base64
import concurrent.futures
import json
import os
import re
import shutil
import struct
import sys
import tempfile
import zlib

from halod import FIBERS, SRCDIR, Halod, run

sys.path.insert(0, os.path.join(SRCDIR, "tests/ctl"))
import gguf_families
import gguf_file as g

VISION = os.path.join(SRCDIR, "tests/golden/vision")
MODEL = os.path.join(VISION, "qwen3vl")
SEE = re.compile(r"<\|vision_start\|><\|image_pad\|><\|vision_end\|>|\[IMG\]|"
                 r"<start_of_image>|<\|image\|>")
IMAGES = os.path.join(SRCDIR, "tests/golden/images")


def raw(name):
    with open(os.path.join(IMAGES, name), "rb") as f:
        return f.read()


def encoded(name):
    return base64.b64encode(raw(name)).decode()


def url(name):
    return "data:image/%s;base64,%s" % (name.split(".")[-1], encoded(name))


def image(name):
    return {"type": "image_url", "image_url": {"url": url(name)}}


def text(words):
    return {"type": "text", "text": words}


def user(*parts):
    return [{"role": "user", "content": list(parts)}]


def chat(d, messages, **more):
    return d.request("POST", "/v1/chat/completions",
                     {"messages": messages, "temperature": 0, "max_tokens": 4,
                      "ignore_eos": True, **more})


def messages_of(case):
    """The golden prompt as a message: images stand where the template shows them."""
    inner = case["text"].split("user\n", 1)[1].split("<|im_end|>", 1)[0]
    pieces = SEE.split(inner)
    parts = [text(pieces[0])] if pieces[0] else []
    for name, words in zip(case["images"], pieces[1:]):
        parts += [image(name)] + ([text(words)] if words else [])
    return user(*parts)


def test_answers(t, d, cases, most=2e-4, n_steps=4):
    for case in cases:
        a = chat(d, messages_of(case), logprobs=True, top_logprobs=5).json
        t.equal(a["usage"]["prompt_tokens"], len(case["ids"]),
                "%s: as many tokens as the reference has" % case["images"])
        worst = 0
        steps = case["steps"][:n_steps]
        for got, want in zip(a["choices"][0]["logprobs"]["content"], steps):
            best = dict((x["logprob"], x) for x in got["top_logprobs"])
            for p, (_, logprob) in zip(sorted(best, reverse=True), want["top"]):
                worst = max(worst, abs(p - logprob))
        t.ok(worst < most, "and its log-probabilities over %d tokens" % len(steps), worst)


def test_cache(t, d):
    ask = user(image("rgb.png"), text("Which image is it, the first or the second one?"))
    other = user(image("deep.png"), text("Which image is it, the first or the second one?"))
    first = chat(d, ask, logprobs=True).json
    again = chat(d, ask, logprobs=True).json
    t.ok(again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 48,
         "the same image is found again", again["usage"])
    t.equal(again["choices"][0]["logprobs"], first["choices"][0]["logprobs"],
            "and answered with the same bits")
    second = chat(d, other, logprobs=True).json
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    t.equal(cached, 0, "another image with the same text and as many tokens is not")
    t.equal(second["usage"]["prompt_tokens"], first["usage"]["prompt_tokens"],
            "which has as many")
    t.ok(second["choices"][0]["logprobs"] != first["choices"][0]["logprobs"],
         "and another answer")
    pixels = chat(d, user(image("lossless.webp"), text(ask[0]["content"][1]["text"])),
                  logprobs=True).json
    t.equal(pixels["choices"][0]["logprobs"], first["choices"][0]["logprobs"],
            "the same pixels in another format give the same answer")


def anthropic_image(name):
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                        "data": encoded(name)}}


def test_spellings(t, d, n_image):
    """One prompt in three spellings has the same tokens: the second and third find it."""
    words = "Look at this image and say what it is, in a few words."
    want = chat(d, user(image("wide.png"), text(words))).json
    said = want["choices"][0]["message"]["content"]
    n = want["usage"]["prompt_tokens"]
    body = {"max_tokens": 4, "messages": user(anthropic_image("wide.png"), text(words))}
    a = d.request("POST", "/v1/messages", {**body, "temperature": 0}).json
    t.equal(a["usage"]["input_tokens"] + a["usage"].get("cache_read_input_tokens", 0), n,
            "Anthropic's image block")
    t.ok(a["content"][0]["text"].startswith(said[:2]), "says the same", a["content"])
    count = d.request("POST", "/v1/messages/count_tokens", {"messages": body["messages"]})
    t.equal(count.json, {"input_tokens": n}, "count_tokens counts images")
    a = d.request("POST", "/v1/responses", {
        "max_output_tokens": 4, "temperature": 0, "store": False, "input": [
            {"role": "user", "content": [
                {"type": "input_image", "image_url": url("wide.png"), "detail": "auto"},
                {"type": "input_text", "text": words}]}]}).json
    t.equal(a["usage"]["input_tokens"], n, "Responses' input_image")
    b = d.request("POST", "/api/chat", {
        "model": d.get("/v1/models").json["data"][0]["id"], "stream": False,
        "options": {"num_predict": 4, "temperature": 0},
        "messages": [{"role": "user", "content": words, "images": [encoded("wide.png")]}]}).json
    t.equal((b["prompt_eval_count"], b["message"]["content"][:2]), (n, said[:2]),
            "Ollama's images")
    t.ok(a["usage"]["input_tokens_details"]["cached_tokens"] >= n_image,
         "finds it in the cache", a["usage"])


def test_apis(t, d):
    test_spellings(t, d, 55)
    block = anthropic_image("wide.png")
    result = [{"role": "user", "content": "What is in it?"},
              {"role": "assistant", "content": [
                  {"type": "tool_use", "id": "t1", "name": "read", "input": {}}]},
              {"role": "user", "content": [
                  {"type": "tool_result", "tool_use_id": "t1", "content": [block]}]}]
    a = d.request("POST", "/v1/messages", {"max_tokens": 2, "messages": result})
    t.ok(a.status == 200 and a.json["usage"]["input_tokens"] > 55,
         "the result of a tool may be an image", a.body)
    a = d.request("POST", "/tokenize", {"messages": user(image("wide.png"))}).json
    t.equal(a["tokens"].count(505), 55, "/tokenize shows its tokens")
    t.equal(d.request("GET", "/props").json["modalities"]["vision"], True,
            "/props says that it sees")
    t.equal(d.get("/v1/models").json["data"][0]["architecture"]["input_modalities"],
            ["text", "image", "video"],
            "so does /v1/models")


def bomb():
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    head = struct.pack(">IIBBBBB", 30000, 30000, 1, 0, 0, 0, 0)
    packed = zlib.compress(bytes(3751 * 3000), 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) +
            chunk(b"IEND", b""))


def test_refused(t, d):
    def data(what):
        return {"type": "image_url", "image_url": {
            "url": "data:image/png;base64," + base64.b64encode(what).decode()}}

    at = "messages[0].content[0].image_url.url"
    cut = raw("baseline.jpg")[:400]
    for what, param, words in (
            ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, at,
             "fetches no images"),
            ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, at,
             "fetches no images"),
            ({"type": "image_url", "image_url": {"url": "data:image/png,abc"}}, at,
             "in base64"),
            ({"type": "image_url", "image_url": {"url": "data:image/png;base64,a?b"}}, at,
             "not valid base64"),
            ({"type": "image_url"}, "messages[0].content[0].image_url", ""),
            (data(b"GIF89a"), at, "not a JPEG, PNG or WebP"),
            (data(cut), at, "cannot be read"),
            (data(bomb()), at, "30000 x 30000"),
            (data(raw("huge.png")), at, "60000 x 60000"),
            (image("moving.webp"), at, "animated"),
            ({"type": "input_audio", "input_audio": {}}, "messages[0].content[0].type",
             "text, images and video only")):
        a = chat(d, user(what, text("?")))
        error = a.json.get("error", {})
        t.ok(a.status == 400 and error.get("param") == param and words in error["message"],
             "refused: %s" % (words or "no image_url"), a.body)
    a = chat(d, user(*[image("rgb.png")] * 5))
    t.ok(a.status == 400 and "more than 4 images, sounds and videos" in a.json["error"]["message"],
         "five images", a.body)
    a = chat(d, [{"role": "system", "content": [image("rgb.png")]}] + user(text("?")))
    t.ok(a.status == 400 and "users and tools" in a.json["error"]["message"],
         "an image in a system message", a.body)
    a = d.request("POST", "/v1/messages", {"max_tokens": 1, "messages": user(
        {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/a"}})})
    t.ok(a.status == 400 and "messages[0].content[0].source" in a.body.decode(),
         "an address in Anthropic's words", a.body)
    forged = chat(d, user(text("<|vision_start|><|image_pad|><|vision_end|>"),
                          image("rgb.png"))).json
    plain = chat(d, user(text("x"), image("rgb.png"))).json
    t.ok(forged["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"],
         "a user's own <|image_pad|> is text", forged)


def read_cases(name):
    with open(os.path.join(VISION, name, "sight.json")) as f:
        return json.load(f)["cases"]


CASES = read_cases("qwen3vl")


def test_kinds(t, d):
    """Each other kind of tower, from the request to the answer."""
    for name, counts in (("mistral3", {505: 32, 503: 3, 504: 1}),
                         ("gemma3", {505: 16, 503: 1, 504: 1}),
                         ("gemma4", {505: 10, 503: 1, 504: 1})):
        kind = Halod(model=os.path.join(VISION, name), exact="yes")
        test_answers(t, kind, read_cases(name))
        a = kind.request("POST", "/tokenize", {"messages": user(
            image("wide.png"), text("[IMG][IMG_BREAK]<start_of_image><|image|>"))}).json
        t.equal({x: a["tokens"].count(x) for x in counts}, counts,
                "%s: tokens of an image, and a user's own are text" % name)
        test_spellings(t, kind, sum(counts.values()))
        words = text("Which of them is it, and is it like the one that was here before?")
        first = chat(kind, user(image("rgb.png"), words), logprobs=True).json
        other = chat(kind, user(image("deep.png"), words), logprobs=True).json
        again = chat(kind, user(image("rgb.png"), words), logprobs=True).json
        cached = [x["usage"]["prompt_tokens_details"]["cached_tokens"]
                  for x in (other, again)]
        t.ok(cached[0] == 0 and cached[1] >= 48, "another image finds nothing of the first",
             cached)
        t.ok(first["choices"][0]["logprobs"] == again["choices"][0]["logprobs"] !=
             other["choices"][0]["logprobs"], "and is answered otherwise")
        t.equal(kind.stop(), 0, "and it ends well")


def test_mutual(t, d):
    """Tokens of an image that see each other need one step, whatever the chunks are."""
    gemma = os.path.join(VISION, "gemma3")
    chunks = Halod(model=gemma, exact="yes", prefill_chunk=5, max_batch_tokens=24, max_seqs=4)
    test_answers(t, chunks, read_cases("gemma3"))
    t.equal(chunks.stop(), 0, "in small steps, and it ends well")
    small = Halod(model=gemma, exact="yes", max_batch_tokens=16, max_seqs=4)
    a = chat(small, user(image("rgb.png")))
    t.ok(a.status == 400 and "reads text only" in a.json["error"]["message"],
         "steps that are too small: images are refused", a.body)
    t.equal(small.stop(), 0, "and it ends well")


def answers(t, d):
    return test_answers(t, d, CASES)


def test_gguf(t, d):
    """The text as GGUF, and llama.cpp's mmproj file beside it."""
    for name in ("qwen3vl", "mistral3", "gemma3", "gemma4", "gemma4clip", "gemma4unified"):
        folder = os.path.join(VISION, name)
        config = g.read_json(folder, "config.json")
        if name == "gemma3":
            config = config["text_config"]
            tensors = g.gemma_tensors(config, {
                x.replace("language_model.", ""): w for x, w in g.load(folder).items()
                if x.startswith("language_model.")})
            keys = g.model_keys(config) + g.tokenizer_keys(folder, config["vocab_size"])
        else:
            tensors = gguf_families.tensors(config, g.load(folder))
            keys = gguf_families.keys(folder, config, tensors)
            keys.append(("tokenizer.ggml.padding_token_id", g.U32, 501))
        if name == "qwen3vl":
            keys.append(("qwen3vl.rope.dimension_sections", (g.ARRAY, g.I32), [4, 2, 2, 0]))
        with tempfile.TemporaryDirectory() as tmp:
            g.write(os.path.join(tmp, "text.gguf"), keys, tensors)
            shutil.copy(os.path.join(VISION, "mmproj-%s.gguf" % name), tmp)
            shutil.copy(os.path.join(folder, "preprocessor_config.json"), tmp)
            both = Halod(model=tmp, exact="yes")
            test_answers(t, both, read_cases(name))
            takes = both.get("/v1/models").json["data"][0]["architecture"]["input_modalities"]
            t.equal(takes, ["text", "image"] + ["video"] * (name == "qwen3vl"), "what it takes")
            t.equal(both.stop(), 0, "%s with a mmproj file, and it ends well" % name)


def test_gpu(t, d):
    """Tower and text on a GPU, and a tower on the CPU beside it. The GPU rounds to float16,
    so only the first token is sure to be the reference's."""
    if not os.path.exists(FIBERS):
        t.ok(True, "# SKIP %s is not built" % FIBERS)
        return
    for name, where, line in (("gemma3", "auto", "gfx1151"), ("qwen3vl", "cpu", "threads")):
        gpu = Halod(model=os.path.join(VISION, name), backend="hip", hip_library=FIBERS,
                    images=where, threads=2, max_seqs=4)
        gpu.wait_log("vision tower runs on .*" + line)
        test_answers(t, gpu, read_cases(name), 0.05, 1)
        # The tower works while others write.
        asks = [user(text("What is 2+2?")), user(image("deep.png"), text("And this?"))]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            both = list(pool.map(lambda ask: chat(gpu, ask, max_tokens=8), asks))
        t.equal([a.status for a in both], [200, 200], "%s: text beside an image" % name)
        t.equal(gpu.stop(), 0, "%s: images = %s, and it ends well" % (name, where))


def test_off(t, d):
    off = Halod(model=MODEL, images="off")
    a = chat(off, user(image("rgb.png")))
    t.ok(a.status == 400 and "reads text only" in a.json["error"]["message"],
         "images = off", a.body)
    t.equal(off.stop(), 0, "and it ends well")


if __name__ == "__main__":
    run([answers, test_cache, test_apis, test_refused, test_kinds, test_mutual, test_gguf,
         test_gpu, test_off],
        model=MODEL, exact="yes", max_images=4)
