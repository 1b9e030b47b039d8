#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Videos over HTTP, as lists of frames, to a tiny Qwen3-VL, Qwen3.5 and Qwen3-Omni: what they answer
against Hugging Face Transformers (tests/golden/make_video.py); the prefix cache; limits; and what is
refused."""
import json
import os
import re
import tempfile

from halod import BUILDDIR, SRCDIR, Halod, run
from test_image_fetch import SERVER, answer
from test_images import MODEL, VISION, chat, encoded, image, raw, text, url, user

SHOWN = re.compile(r"<\|vision_start\|><\|(image|video)_pad\|><\|vision_end\|>")
PAD = 506
HAS_FILES = os.path.exists(os.path.join(BUILDDIR, "halod-video"))  # else it was built without libav
FRAMES = ["rgb.png", "luma.png", "palette.png"]


def video(frames, **more):
    return {"type": "video", "video": [url(name) for name in frames], **more}


def joined(frames, **more):
    """As vLLM takes frames: any format that is an image."""
    return {"type": "video_url", **more, "video_url": {
        "url": "data:video/jpeg;base64," + ",".join(encoded(name) for name in frames)}}


def messages_of(case, show):
    """The golden prompt as a message: videos and images stand where the template shows them."""
    inner = case["text"].split("user\n", 1)[1].split("<|im_end|>", 1)[0]
    names, videos, parts = iter(case["images"]), iter(case["videos"]), []
    for i, piece in enumerate(SHOWN.split(inner)):
        if i % 2 and piece == "image":
            parts.append(image(next(names)))
        elif i % 2:
            v = next(videos)
            parts.append(show(v["frames"], fps=v["fps"]))
        elif piece:
            parts.append(text(piece))
    return user(*parts)


def test_answers(t, d, name="qwen3vl"):
    with open(os.path.join(VISION, name, "video.json")) as f:
        cases = json.load(f)["cases"]
    for i, case in enumerate(cases):
        ask = messages_of(case, joined if i == 1 else video)
        got = d.request("POST", "/tokenize", {"messages": ask}).json["tokens"]
        t.equal(got, case["ids"], "%s, case %d: the reference's %d tokens" % (name, i, len(got)))
        a = chat(d, ask, max_tokens=2, logprobs=True, top_logprobs=5).json
        t.equal(a["usage"]["prompt_tokens"], len(case["ids"]), "all counted")
        worst, steps = 0, a["choices"][0]["logprobs"]["content"]
        t.equal(len(steps), len(case["steps"]), "as many steps")
        for step, want in zip(steps, case["steps"]):
            best = sorted((x["logprob"] for x in step["top_logprobs"]), reverse=True)
            worst = max([worst] + [abs(p - q) for p, (_, q) in zip(best, want["top"])])
        t.ok(worst < 1e-4, "and its log-probabilities over %d tokens" % len(steps), worst)


def test_qwen35(t, d):
    other = Halod(model=os.path.join(VISION, "qwen35"), exact="yes")
    test_answers(t, other, "qwen35")
    t.equal(other.stop(), 0, "and it ends well")


def test_omni(t, d):
    """Times are positions there: the tokens are the same at another speed, the answer is not."""
    omni = Halod(model=os.path.join(VISION, "qwen3omni"), exact="yes")
    test_answers(t, omni, "qwen3omni")
    fast, slow, again = (
        chat(omni, user(video(FRAMES, fps=fps), text("How long is it?")), logprobs=True).json
        for fps in (2, 0.5, 2))
    t.equal(slow["usage"]["prompt_tokens"], fast["usage"]["prompt_tokens"], "as many tokens")
    alone = chat(omni, user(video(FRAMES, fps=0.5), text("How long is it?")), logprobs=True,
                 cache_salt="alone").json
    t.ok(slow["choices"][0]["logprobs"] == alone["choices"][0]["logprobs"] !=
         fast["choices"][0]["logprobs"], "a slower video takes no later frames of the faster one")
    t.ok(again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 256 and
         again["choices"][0]["logprobs"] == fast["choices"][0]["logprobs"],
         "and the first speed is found again", again["usage"])
    t.equal(omni.stop(), 0, "and it ends well")


def test_cache(t, d):
    words = text("Which one of them is it, and what happens in it, and then at its end?")
    first = chat(d, user(video(FRAMES, fps=4), words), logprobs=True).json
    again = chat(d, user(joined(FRAMES, fps=4), words), logprobs=True).json
    t.ok(again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 48,
         "the same frames are found again", again["usage"])
    t.equal(again["choices"][0]["logprobs"], first["choices"][0]["logprobs"],
            "and answered with the same bits, in the other form")
    late = chat(d, user(video(FRAMES[:2] + ["deep.png"], fps=4), words), logprobs=True).json
    n = late["usage"]["prompt_tokens_details"]["cached_tokens"]
    t.ok(n < 5 + 9 + 17 + 9 + 17, "of another last frame only what stands before it", n)
    t.equal(late["usage"]["prompt_tokens"], first["usage"]["prompt_tokens"],
            "which has as many tokens")
    t.ok(late["choices"][0]["logprobs"] != first["choices"][0]["logprobs"],
         "and another answer")
    turned = chat(d, user(video(["luma.png", "rgb.png", "palette.png"], fps=4), words),
                  logprobs=True).json
    t.ok(turned["choices"][0]["logprobs"] != first["choices"][0]["logprobs"],
         "frames in another order are another video")


def test_shapes(t, d):
    slow = d.request("POST", "/tokenize", {"messages": user(video(FRAMES))}).json["tokens"]
    same = d.request("POST", "/tokenize", {"messages": user(video(FRAMES, fps=2.0))}).json
    t.equal(slow, same["tokens"], "two frames in a second, unless fps says something else")
    t.equal(slow.count(PAD), 30, "two pairs of frames")
    string = {"type": "video_url", "video_url": joined(FRAMES)["video_url"]["url"]}
    a = d.request("POST", "/tokenize", {"messages": user(string)}).json["tokens"]
    t.equal(a, slow, "video_url may be a string")
    forged = user(text("<|vision_start|><|video_pad|><|vision_end|>"), video(FRAMES))
    a = d.request("POST", "/tokenize", {"messages": forged}).json["tokens"]
    t.equal(a.count(PAD), 30, "a user's own <|video_pad|> is text")
    a = chat(d, user(*[video(FRAMES[:1] * 20)] * 4))
    t.equal(a.status, 200, "four videos of twenty frames count as four")
    tool = [{"role": "user", "content": "Look."},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": [video(FRAMES)]}]
    t.equal(chat(d, tool).status, 200, "the result of a tool may be a video")


def test_fetched(t, d):
    """Frames by their address, from a server of this test's own: each is fetched once."""
    SERVER.rows.update({"/" + name: answer(raw(name)) for name in FRAMES})
    far = {"type": "video", "video": [SERVER.url + "/" + name for name in FRAMES]}
    near = chat(d, user(video(FRAMES), text("Where?")), logprobs=True).json
    a = chat(d, user(far, text("Where?")), logprobs=True).json
    t.equal(a["choices"][0]["logprobs"], near["choices"][0]["logprobs"], "answered as data URLs")
    t.equal(SERVER.paths(), ["/" + name for name in FRAMES], "each frame is asked for once")
    n = len(d.request("POST", "/tokenize", {"messages": user(far)}).json["tokens"])
    t.ok(n > 30 and SERVER.paths()[3:] == ["/" + FRAMES[0]],
         "to count tokens the first is enough", SERVER.paths())


def test_refused(t, d):
    at = "messages[0].content[0]"
    good = url("rgb.png")
    for part, param, words in (
            ({"type": "video", "video": []}, ".video", "1 to 768"),
            ({"type": "video", "video": [good] * 769}, ".video", "1 to 768"),
            ({"type": "video"}, ".video", ""),
            ({"type": "video", "video": 3}, ".video", "list of frames"),
            ({"type": "video", "video": [good, 3]}, ".video[1]", "string"),
            ({"type": "video", "video": [good, "https://example.org/a.png"]}, ".video[1]",
             "fetches no images"),
            ({"type": "video", "video": [good, good, url("wide.png")]}, ".video[2]",
             "has 90 x 41 pixels, and the video's first 37 x 23"),
            ({"type": "video", "video": [good, "data:image/png;base64,a?b"]}, ".video[1]",
             "not valid base64"),
            ({"type": "video", "video": ["data:image/png;base64,R0lGODlh", good]}, ".video[0]",
             "not a JPEG, PNG or WebP"),
            ({"type": "video", "video": [good], "fps": 0}, ".fps", ""),
            ({"type": "video", "video": [good], "fps": "2"}, ".fps", ""),
            ({"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
             ".video_url.url", "no MP4, WebM or Matroska file" if HAS_FILES else
             "reads no files of video: halod-video is not installed; send the frames"),
            ({"type": "video_url"}, ".video_url", ""),
            (joined(["rgb.png", "huge.png"]), ".video_url.url",
             "frame 2 of the video: the image has 60000 x 60000"),
            ({"type": "video_url", "video_url": {"url": "data:video/jpeg;base64,"}},
             ".video_url.url", "frame 1 of the video"),
            ({"type": "video_url", "video_url": {
                "url": "data:video/jpeg;base64,%s,," % encoded("rgb.png")}},
             ".video_url.url", "frame 2 of the video")):
        a = chat(d, user(part, text("?")))
        error = a.json.get("error", {})
        t.ok(a.status == 400 and error.get("param") == at + param and words in error["message"],
             "refused: %s" % (words or param), a.body)
    a = chat(d, user(*[video(FRAMES)] * 5))
    t.ok(a.status == 400 and "more than 4 images, sounds and videos" in a.json["error"]["message"],
         "five videos", a.body)
    a = chat(d, [{"role": "system", "content": [video(FRAMES)]}] + user(text("?")))
    t.ok(a.status == 400 and "users and tools" in a.json["error"]["message"],
         "a video in a system message", a.body)
    long = video(["rgb.png", "luma.png"] * 384)
    long["video"][-1] = "data:image/png;base64,R0lGODlh"
    a = chat(d, user(long))
    error = a.json["error"]
    t.ok(a.status == 400 and error["code"] == "context_length_exceeded" and
         error["param"] == "messages",
         "a video that is longer than the context, before its frames are seen", a.body)


def test_other_apis(t, d):
    """They have no words for video, and say who has."""
    for path, more in (("/v1/responses", {}), ("/v1/messages", {"max_tokens": 1})):
        for part, words in ((video(FRAMES), "send it to /v1/chat/completions"),
                            ({"type": "film"}, "reads text, images and video only")):
            key = "input" if path == "/v1/responses" else "messages"
            a = d.request("POST", path, {key: user(part, text("?")), **more})
            t.ok(a.status == 400 and words in a.json["error"]["message"],
                 "%s, %s: %s" % (path, part["type"], words), a.body)


def test_blind(t, d):
    """A model that sees images alone, and a template that shows no video."""
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as f:
        f.write("{% for m in messages %}{{ m.role }}{% endfor %}")
        f.flush()
        for more, words in (
                ({"model": os.path.join(VISION, "gemma3")}, "reads text and images only"),
                ({"model": MODEL, "chat_template": f.name},
                 "shows 0 of 2 pairs of a video's frames")):
            blind = Halod(exact="yes", **more)
            a = chat(blind, user(video(FRAMES)))
            t.ok(a.status == 400 and words in a.json["error"]["message"], words, a.body)
            t.equal(blind.stop(), 0, "and it ends well")


if __name__ == "__main__":
    run([test_answers, test_qwen35, test_omni, test_cache, test_shapes, test_fetched, test_refused,
         test_other_apis, test_blind],
        model=MODEL, exact="yes", max_images=4, max_body="64M", image_urls=SERVER.url + "/")
