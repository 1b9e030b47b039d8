#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official OpenAI client for Python. test.sh installs it below build/clients;
without it this test is skipped."""
import json
import tempfile

import io
import os

from halod import BUILDDIR, SRCDIR, Halod, need, run
from sounds import is_built, sound, tone

openai = need("openai")

USER = [{"role": "user", "content": "What is 2+2?"}]
GREEDY = {"temperature": 0, "max_tokens": 16, "model": "halo-tiny"}


def client(d, **more):
    return openai.OpenAI(base_url="http://127.0.0.1:%d/v1" % d.port, api_key="any",
                         timeout=60, max_retries=0, **more)


def text_of(m):
    return (getattr(m, "reasoning_content", None) or "") + (m.content or "")


def test_chat(t, d):
    c = client(d).chat.completions.create(messages=USER, **GREEDY)
    t.ok(c.object == "chat.completion" and text_of(c.choices[0].message), "whole", c)
    t.ok(c.usage.total_tokens == c.usage.prompt_tokens + c.usage.completion_tokens and
         c.usage.prompt_tokens_details.cached_tokens >= 0, "usage", c.usage)
    chunks = list(client(d).chat.completions.create(
        messages=USER, stream=True, stream_options={"include_usage": True}, **GREEDY))
    t.equal("".join(text_of(x.choices[0].delta) for x in chunks if x.choices),
            text_of(c.choices[0].message), "streamed: the same text")
    t.equal(chunks[-1].usage.completion_tokens, c.usage.completion_tokens,
            "streamed: the same usage")
    t.equal([x.choices[0].finish_reason for x in chunks if x.choices][-1],
            c.choices[0].finish_reason, "streamed: the same end")
    c = client(d).chat.completions.create(messages=USER, logprobs=True, top_logprobs=3,
                                          n=2, seed=1, **GREEDY)
    first = c.choices[1].logprobs.content[0]
    t.ok(first.logprob <= 0 and len(first.top_logprobs) == 3, "logprobs", first)
    raw = client(d).chat.completions.with_raw_response.create(
        messages=USER, extra_headers={"X-Request-Id": "py-1"}, **GREEDY)
    t.equal(raw.headers["x-request-id"], "py-1", "the request's id")


def test_helper(t, d):
    """The client's own accumulator is strict about the order of chunks."""
    with client(d).chat.completions.stream(
            messages=USER, model="halo-tiny", temperature=0) as stream:
        deltas = [e.delta for e in stream if e.type == "content.delta"]
        done = stream.get_final_completion()
    t.ok(done.choices[0].finish_reason == "stop" and
         done.choices[0].message.content == "".join(deltas), "stream helper", done)


def test_rest(t, d):
    c = client(d)
    t.equal([m.id for m in c.models.list()], ["halo-tiny"], "models.list")
    t.equal(c.models.retrieve("halo-tiny").id, "halo-tiny", "models.retrieve")
    whole = c.completions.create(prompt="Once upon a time", **GREEDY)
    parts = c.completions.create(prompt="Once upon a time", stream=True, **GREEDY)
    t.equal("".join(p.choices[0].text for p in parts), whole.choices[0].text,
            "completions, whole and streamed")


def test_responses(t, d):
    c = client(d)
    ask = {"model": "halo-tiny", "input": "What is 2+2?", "temperature": 0,
           "max_output_tokens": 16}
    whole = c.responses.create(instructions="You help.", **ask)
    t.ok(whole.status in ("completed", "incomplete") and
         whole.usage.output_tokens > 0, "responses.create", whole)
    text = "".join(p.text for i in whole.output for p in i.content)
    events = list(c.responses.create(instructions="You help.", stream=True, **ask))
    t.equal("".join(e.delta for e in events if e.type.endswith("_text.delta")), text,
            "streamed: the same text")
    t.equal([e.sequence_number for e in events], list(range(len(events))),
            "every event is numbered")
    with c.responses.stream(instructions="You help.", **ask) as stream:
        kinds = [e.type for e in stream]
    t.ok(kinds[0] == "response.created" and
         kinds[-1] == "response." + whole.status, "stream helper", kinds)
    more = c.responses.create(**{**ask, "input": "And 3+3?"},
                              previous_response_id=whole.id)
    t.ok(more.usage.input_tokens > whole.usage.input_tokens, "goes on by id", more)
    t.ok(isinstance(whole.output_text, str), "output_text")


def test_errors(t, d):
    c = client(d)
    for what, call, kind, code in (
            ("unknown model", lambda: c.chat.completions.create(
                messages=USER, model="gpt-5"), openai.NotFoundError,
             "model_not_found"),
            ("too long", lambda: c.chat.completions.create(
                messages=[{"role": "user", "content": "word " * 9000}], stream=True,
                model="halo-tiny"), openai.BadRequestError,
             "context_length_exceeded"),
            ("wrong type", lambda: c.chat.completions.create(
                messages=[{"role": 7, "content": "x"}], model="halo-tiny"),
             openai.BadRequestError, None)):
        try:
            call()
            t.ok(False, "%s: an error" % what)
        except openai.APIStatusError as caught:
            e = caught
            t.ok(isinstance(e, kind) and e.code == code and e.request_id,
                 "%s: %s" % (what, kind.__name__), repr(e))
    t.equal(e.param, "messages[0].role", "the place of the fault")


WEATHER = {"type": "function", "function": {
    "name": "get_current_weather", "description": "Look up the weather",
    "strict": True, "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}},
        "required": ["city"], "additionalProperties": False}}}


def test_tools(t, d):
    """An agent's loop, with the client's own messages sent back."""
    chat = client(d).chat.completions
    ask = {"model": "halo-tiny", "temperature": 0, "max_tokens": 200,
           "tools": [WEATHER]}
    messages = [{"role": "user", "content": "weather in Tunis?"}]
    first = chat.create(messages=messages, **ask)
    call = first.choices[0].message.tool_calls[0]
    t.ok(first.choices[0].finish_reason == "tool_calls" and
         call.function.name == "get_current_weather" and
         call.function.arguments == '{"city": "Tunis"}', "a call", call)
    with chat.stream(messages=messages, **ask) as stream:
        done = [e for e in stream if e.type == "tool_calls.function.arguments.done"]
        last = stream.get_final_completion().choices[0].message.tool_calls[0]
    t.ok(len(done) == 1 and done[0].arguments == call.function.arguments and
         last.id.startswith("call_") and last.function.parsed_arguments ==
         {"city": "Tunis"}, "streamed, put together by the client", (done, last))
    messages += [first.choices[0].message,
                 {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    second = chat.create(messages=messages, **ask)
    t.ok(second.choices[0].finish_reason in ("stop", "tool_calls") and
         second.usage.prompt_tokens_details.cached_tokens >=
         first.usage.total_tokens - 32, "its result goes back, the prefix is cached",
         second)


def test_audio(t, d):
    """Messages with audio, and transcripts."""
    if not is_built(BUILDDIR):
        t.skip("halod was built without the libraries for audio")
        return
    vision = os.path.join(SRCDIR, "tests/golden/vision")
    omni = Halod(model=vision + "/qwen3omni", aligner_model=vision + "/qwen3aligner",
                 max_output_tokens=6)
    c = client(omni)
    a = c.chat.completions.create(model="qwen3omni", temperature=0, messages=[
        {"role": "user", "content": [sound(tone(1)), {"type": "text", "text": "What is it?"}]}])
    t.equal(a.usage.prompt_tokens_details.audio_tokens, 13, "a message with audio")

    def file():
        return "a.wav", io.BytesIO(tone(1.5)), "audio/wav"
    ask = {"model": "qwen3omni"}
    whole = c.audio.transcriptions.create(file=file(), **ask)
    t.ok(whole.text and whole.usage.input_token_details.audio_tokens == 20, "a transcript", whole)
    t.equal(c.audio.transcriptions.create(file=file(), response_format="text", **ask).strip(),
            whole.text, "as text")
    long = c.audio.transcriptions.create(file=file(), response_format="verbose_json",
                                         language="en", temperature=0, **ask)
    t.ok(long.duration == 1.5 and long.language == "english", "verbose", long)
    events = list(c.audio.transcriptions.create(file=file(), stream=True, **ask))
    t.ok(events[-1].type == "transcript.text.done" and events[-1].text == whole.text and
         "".join(e.delta for e in events[:-1]).strip() == whole.text, "streamed", events)
    t.ok(c.audio.translations.create(file=file(), **ask).text, "a translation")
    timed = c.audio.transcriptions.create(
        file=file(), response_format="verbose_json", timestamp_granularities=["word", "segment"],
        **ask)
    t.ok(timed.text == whole.text and
         " ".join(x.text for x in timed.segments).split() == whole.text.split() and
         all(0 <= w.start <= w.end < 8 and w.word for w in timed.words), "times", timed)
    for kind, begins in (("srt", "1\n00:00:0"), ("vtt", "WEBVTT\n\n00:00:0")):
        a = c.audio.transcriptions.create(file=file(), response_format=kind, **ask)
        t.ok(isinstance(a, str) and a.startswith(begins) and a.count(" --> ") ==
             len(timed.segments), kind, a)
    try:
        c.audio.transcriptions.create(file=file(), timestamp_granularities=["word"], **ask)
        t.ok(False, "times without verbose_json are refused")
    except openai.BadRequestError as e:
        t.equal(e.param, "timestamp_granularities", "times without verbose_json are refused")
    t.equal(omni.stop(), 0, "and it ends well")


def test_left(t, d):
    stream = client(d).chat.completions.create(
        messages=USER, model="halo-tiny", stream=True, max_tokens=3000,
        extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    d.wait_metrics(num_requests_running=0)
    t.ok(True, "a stream that is closed early ends")


def test_batches(t, d):
    c = client(d)
    lines = [{"custom_id": "c%d" % i, "method": "POST", "url": "/v1/chat/completions",
              "body": {"messages": USER, **GREEDY}} for i in range(3)]
    lines[1]["body"]["top_p"] = 7
    f = c.files.create(file=("in.jsonl", "\n".join(map(json.dumps, lines)).encode()),
                       purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600})
    t.ok(f.purpose == "batch" and f.expires_at - f.created_at == 3600, "files.create", f)
    b = c.batches.create(input_file_id=f.id, endpoint="/v1/chat/completions",
                         completion_window="24h", metadata={"a": "b"},
                         extra_body={"output_expires_after": {"anchor": "created_at",
                                                              "seconds": 7200}})
    d.wait_metrics(**{'batch_requests_total{outcome="completed"}': 2,
                      'batch_requests_total{outcome="failed"}': 1, "batches_open": 0})
    b = c.batches.retrieve(b.id)
    t.equal((b.status, b.request_counts.completed, b.request_counts.failed, b.metadata),
            ("completed", 2, 1, {"a": "b"}), "batches.retrieve")
    out = [json.loads(x) for x in c.files.content(b.output_file_id).text.splitlines()]
    whole = c.chat.completions.create(messages=USER, **GREEDY).choices[0].message.content
    t.equal([x["response"]["body"]["choices"][0]["message"]["content"] for x in out],
            [whole] * 2, "files.content: the answers")
    bad = json.loads(c.files.content(b.error_file_id).text)
    t.equal((bad["custom_id"], bad["response"]["status_code"]), ("c1", 400), "and the error")
    t.equal([x.id for x in c.batches.list(limit=1)], [b.id], "batches.list")
    t.equal({x.id for x in c.files.list(limit=2)}, {f.id, b.output_file_id, b.error_file_id},
            "files.list, page by page")
    try:
        c.batches.cancel(b.id)
        t.ok(False, "batches.cancel of one that has ended")
    except openai.BadRequestError as e:
        t.ok("completed" in str(e), "batches.cancel of one that has ended", e)
    t.ok(c.files.delete(f.id).deleted, "files.delete")
    try:
        c.files.retrieve(f.id)
        t.ok(False, "files.retrieve of one that is gone")
    except openai.NotFoundError:
        t.ok(True, "files.retrieve of one that is gone")


with tempfile.TemporaryDirectory() as state:
    run([test_chat, test_helper, test_rest, test_responses, test_errors, test_tools,
         test_audio, test_left, test_batches], state_dir=state)
