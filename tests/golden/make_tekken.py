#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small tekken.json, and the ids that mistral-common makes with it.

    pip install mistral-common   (in a venv)
    make_tekken.py

Writes tests/golden/tekken/tekken.json, whose pieces are merged from docs/api.md, and in cases.json
  texts   texts and their ids
  chats   conversations and their ids, for each version of the file
  sounds  the same with audio, in windows of SOUND: tones of `seconds`, as tests/http/sounds.py
          makes them
  transcripts  requests for a transcript of such a tone, by their language"""

import base64
import collections
import copy
import io
import json
import os
import re
import sys
import tempfile

from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.transcription.request import TranscriptionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../http"))
import sounds

FOLDER = "tests/golden/tekken"
SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
           "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
           "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
           "[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]", "<SPECIAL_22>", "<SPECIAL_23>", "[AUDIO]",
           "[BEGIN_AUDIO]", *("<SPECIAL_%d>" % i for i in range(26, 34)), "[TRANSCRIBE]"]
N_SPECIAL, VOCAB = 36, 512
# Of Voxtral, but for its windows of 30 s.
SOUND = {"sampling_rate": 16000, "frame_rate": 12.5, "chunk_length_s": 1.2,
         "audio_encoding_config": {"num_mel_bins": 128, "hop_length": 160, "window_size": 400}}
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PATTERN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
           r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = ["Which model is it, and what does it take?", "aaaaa aaaaaaa aaaaaaaaa =-=-=-=-=",
         " \t  x\r\n\r\n  foo(bar)://\n/ 12345", "日本語 Здравствуй, мир! éè x\u0301y 🎉",
         "[INST] <s> [TOOL_CALLS] are words here", "messages messages_of themessages"]
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"town": {"type": "string"}}}}}]
CALLS = [{"id": "abc123XYZ", "type": "function", "function": {
    "name": "weather", "arguments": "{\"town\": \"Bern\"}"}}]
TWO = CALLS + [{"id": "abc123XYA", "type": "function", "function": {
    "name": "weather", "arguments": "{\"town\": \"Zürich\"}"}}]
BEGIN = [{"role": "system", "content": "Be short."},
         {"role": "user", "content": "What is the weather in Bern?"}]


def result(i, text):
    return {"role": "tool", "tool_call_id": i, "name": "weather", "content": text}


CHATS = [
    (BEGIN, None),
    (BEGIN[1:] + [{"role": "assistant", "content": "It rains.  "},
                  {"role": "user", "content": "And [INST] now?"}], TOOLS),
    (BEGIN + [{"role": "assistant", "tool_calls": CALLS}, result("abc123XYZ", "rain")], TOOLS),
    (BEGIN + [{"role": "assistant", "tool_calls": TWO}, result("abc123XYZ", "rain"),
              result("abc123XYA", "sun"), {"role": "assistant", "content": "Rain and sun."},
              {"role": "user", "content": "Thanks"}], TOOLS),
]


def heard(seconds):
    return {"type": "input_audio", "seconds": seconds}


def said(text):
    return {"type": "text", "text": text}


SOUNDS = [
    [{"role": "user", "content": [heard(0.3)]}],
    [{"role": "user", "content": [heard(1.2), said("What is said?")]},
     {"role": "assistant", "content": "Nothing."},
     {"role": "user", "content": [said("And "), heard(1.205), said(" or [AUDIO] "),
                                  heard(3)]}],
]


def with_files(messages):
    out = copy.deepcopy(messages)
    for m in out:
        for part in m["content"] if isinstance(m["content"], list) else ():
            if "seconds" in part:
                part["input_audio"] = {"format": "wav", "data": sounds.spelled(
                    sounds.tone(part.pop("seconds")))}
    return out


def transcript(t, seconds, language):
    file = io.BytesIO(sounds.tone(seconds))
    request = TranscriptionRequest.from_openai({"model": "", "file": file, "language": language})
    return {"seconds": seconds, "language": language,
            "ids": t.encode_transcription(request).tokens}


def train(n):
    with open("docs/api.md", "rb") as f:
        words = collections.Counter(re.findall(rb" ?[A-Za-z]+|[^A-Za-z]", f.read()))
    words = {w: (tuple(bytes([b]) for b in w), c) for w, c in words.items()}
    words[b"aaaaa"] = tuple([b"a"] * 5), 10**6  # pieces that several merges make
    pieces = [bytes([b]) for b in range(256)]
    while len(pieces) < n:
        pairs = collections.Counter()
        for parts, count in words.values():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += count
        best = max(pairs, key=lambda p: (pairs[p], p))
        made = b"".join(best)
        if made not in pieces:
            pieces.append(made)
        for w, (parts, count) in words.items():
            out, i = [], 0
            while i < len(parts):
                both = parts[i:i + 2] == best
                out.append(made if both else parts[i])
                i += 1 + both
            words[w] = tuple(out), count
    return pieces


def main():
    tekken = {"config": {"pattern": PATTERN, "num_vocab_tokens": VOCAB - N_SPECIAL,
                         "default_vocab_size": VOCAB, "default_num_special_tokens": N_SPECIAL,
                         "version": "v13"},
              "vocab": [{"rank": i, "token_bytes": base64.b64encode(p).decode(), "token_str": None}
                        for i, p in enumerate(train(VOCAB - N_SPECIAL))],
              "special_tokens": [{"rank": i, "token_str": s, "is_control": True}
                                 for i, s in enumerate(SPECIAL)]}
    chats, texts, heard_in, transcripts = [], [], [], []
    for version in "v7", "v11", "v13":
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "tekken.json")
            own = copy.deepcopy(tekken)
            own["config"]["version"] = version
            own["audio"] = SOUND
            with open(path, "w") as f:
                json.dump(own, f)
            t = MistralTokenizer.from_file(path)
        for messages, tools in CHATS:
            request = ChatCompletionRequest.from_openai(copy.deepcopy(messages), tools=tools)
            chats.append({"version": version, "messages": messages, "tools": tools,
                          "ids": t.encode_chat_completion(request).tokens})
        for messages in SOUNDS + ([BEGIN[:1] + SOUNDS[0]] if version == "v13" else []):
            request = ChatCompletionRequest.from_openai(with_files(messages))
            heard_in.append({"version": version, "messages": messages,
                             "ids": t.encode_chat_completion(request).tokens})
        for seconds, language in (0.3, "en"), (2.5, None):
            transcripts.append({"version": version, **transcript(t, seconds, language)})
    for text in TEXTS:
        texts.append({"text": text,
                      "ids": t.instruct_tokenizer.tokenizer.encode(text, bos=False, eos=False)})
    os.makedirs(FOLDER, exist_ok=True)
    for name, what in (("tekken.json", tekken), ("cases.json", {
            "reference": "tests/golden/make_tekken.py", "texts": texts, "chats": chats,
            "sounds": heard_in, "transcripts": transcripts})):
        with open(os.path.join(FOLDER, name), "w") as f:
            json.dump(what, f, ensure_ascii=False)


if __name__ == "__main__":
    main()
