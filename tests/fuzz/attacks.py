# SPDX-License-Identifier: Apache-2.0
"""What has gone wrong once, here or in other servers, each in its smallest form: bodies, heads of
requests, files of models. Seeds of the fuzzers (make_seeds.py) and of test_bodies.py."""
import json
import os
import re
import struct
import zlib

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def endpoints():
    """The addresses that take a body, in the order of fuzz_api's table."""
    with open(os.path.join(TREE, "src/api/endpoint.def"), encoding="utf-8") as f:
        return re.findall(r'^ENDPOINT_(?:CALL|TEXT)\("([^"]+)"', f.read(), re.M)


# --- bodies ---------------------------------------------------------------------------------

CHAT, COMPLETE, MESSAGES, RESPONSES = (
    "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")
BIG = 10 ** 19
WORD = {"type": "string", "maxLength": 8}
POINT = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}},
         "required": ["x"], "additionalProperties": False}


def user(text, **more):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 3, **more}


def function(name, parameters, **more):
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


def flat(name, parameters, **more):
    return {"type": "function", "name": name, "parameters": parameters, **more}


def schemas():
    yield from ({"type": "integer", k: v} for k, v in (
        ("minimum", BIG), ("minimum", 1 << 63), ("exclusiveMinimum", (1 << 63) - 1),
        ("maximum", -BIG), ("maximum", -(1 << 63) - 1), ("exclusiveMaximum", -(1 << 63))))
    yield {"enum": [(1 << 64) - 1, 1.5e300, -0.0]}
    yield {"const": {"n": (1 << 64) - 1}}
    yield {"type": "array", "uniqueItems": True, "minItems": 2, "items": {
        "type": "integer", "minimum": 1990, "maximum": 2040}}
    yield {"type": "array", "uniqueItems": True, "items": {"pattern": "^id_[a-z0-9]{3}$"}}
    yield {"type": "array", "uniqueItems": True, "items": POINT, "minItems": 3}
    yield {"type": "object", "additionalProperties": WORD, "minProperties": 2, "maxProperties": 4}
    yield {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    yield {"$ref": "#/properties/a/items", "properties": {"a": {"items": WORD}}}
    twice = {"type": "null"}
    for i in range(9):
        twice = {"anyOf": [twice, twice]} if i % 2 else {"oneOf": [twice, {"const": i}]}
    yield twice
    ahead = "".join("(?=.*%s)" % c for c in "abc")
    yield {"type": "object", "properties": {"p%d" % i: {"pattern": "^%s[a-z]{%d,40}$" % (
        ahead, 9 + i)} for i in range(3)}}
    yield {"type": "OBJECT"}
    yield {"type": "object", "properties": {"a\0b": WORD}}
    yield {"type": "array", "contains": {"const": 1}, "maxContains": 0, "minItems": 1}
    yield {"not": {}}
    yield False


REGEXES = ("foo**", "".join("(?=.*%s)" % c for c in "abcde") + "[a-z]{9,50}",
           "((a{1,99}){1,99}){1,99}", "(?i:straße)", r"\cA[[:alpha:]]", "[]", "(?<=a+)b",
           "(" * 60 + ")" * 60, "\\", "a{4294967297}", "[^\\p{L}\\u{10FFFF}]*", "(?(1)a|b)")
GRAMMARS = ("root ::= root", 'root ::= "a" | root root', "root ::= a\na ::= b\nb ::= a",
            'root ::= ("a"*)*', "root ::= [", 'root ::= "\\uD800" x\nx ::= "', "a ::= b",
            'root ::= "a"{0,99999}', "root ::= " + "(" * 90 + '"a"' + ")" * 90)


def chats():
    """Bodies of /v1/chat/completions."""
    for s in schemas():
        yield user("A number.", response_format={"type": "json_schema", "json_schema": {
            "name": "x", "strict": True, "schema": s}})
        yield user("Call.", tools=[function("f", s, strict=True)], tool_choice="required")
    for r in REGEXES:
        yield user("x", guided_regex=r)
    for g in GRAMMARS:
        yield user("x", guided_grammar=g)
    yield user("A point", temperature=1.3, tool_choice="required", tools=[
        function("f", POINT, strict=False)])
    yield user("go", max_tokens=9, stream=True, tools=[function("f", {
        "type": "object", "properties": {"text": {"type": "string", "minLength": 90}},
        "required": ["text"]})], tool_choice="required")
    call = {"id": "c1", "type": "function", "function": {
        "name": "f", "arguments": '{"id": 12345678901234567890, "k": 1.50}'}}
    for content in ("ok", None, [], [{"type": "text", "text": ""}]):
        yield {"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
            {"role": "tool", "tool_call_id": "c1", "content": content}], "max_tokens": 3}
    yield {"messages": [{"role": "user", "content": "x"}, {
        "role": "assistant", "content": None, "tool_calls": [
            {**call, "function": {"name": "f", "arguments": '{"a":'}}]}], "max_tokens": 3}
    for more in ({"functions": [], "function_call": "none"}, {"documents": []}, {"n": 10 ** 9},
                 {"max_tokens": -1}, {"stop": ""}, {"n_discard": -32}, {"stop": ["a"] * 17},
                 {"dry_multiplier": 1, "dry_allowed_length": -1}, {"logprobs": 3},
                 {"chat_template": "{{ 7 * 7 }}"}, {"chat_template_kwargs": {"messages": []}},
                 {"modalities": ["audio"]}, {"mirostat": 2}, {"typical_p": .5}, {"n": 2.0},
                 {"seed": (1 << 32) + 1}, {"temperature": 1e30}, {"top_p": -1}, {"min_p": 2},
                 {"logit_bias": {"-1": 100, "99999999999": 1}}, {"stream_options": {}},
                 {"user": None, "store": True, "service_tier": "auto", "verbosity": "low"},
                 {"response_format": {"type": "text"}, "guided_choice": []},
                 {"continue_final_message": True, "add_generation_prompt": True},
                 {"tool_choice": {"type": "function", "function": {"name": "g"}}}):
        yield user("x", **more)
    for text in ("{{ self.__init__.__globals__ }}{% raw %}", "\0", "\ud800", "<|im_start|>system\n",
                 "</tool_call><tool_response>", "\u202e\ufeff\u0300" * 9, "a" * 700):
        yield user(text)
    yield {"messages": [{"role": "user", "content": "Go on:"}, {
        "role": "assistant", "content": "Water is", "prefix": True}],
        "continue_final_message": True, "add_generation_prompt": False, "max_tokens": 3}
    for url in ("http://169.254.1.1/a", "http://user@127.0.0.1\\@host/", "file:///etc/passwd",
                "data:image/png;base64,", "data:image/png;base64,iVBORw0KGgo=", "//host/%2e%2e"):
        yield {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": url}}]}], "max_tokens": 3}


def bodies():
    """[(path, text)]: a text, since some are no JSON."""
    found = [(CHAT, b) for b in chats()]
    found += [(MESSAGES, {"max_tokens": 3, **b}) for b in (
        {"system": "You help.", "messages": [{"role": "user", "content": "Hello"}, {
            "role": "system", "content": "Types of agents: none."}]},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "stream": True,
         **user("What is water made of?", max_tokens=1030)},
        {"thinking": {"type": "disabled"}, "messages": [
            {"role": "user", "content": "What is it?"},
            {"role": "assistant", "content": "It is made of "}]},
        {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "redacted_thinking", "data": "eA=="}]}, {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "no", "is_error": True}]}]},
        {"tools": [{"type": "bash_20250124", "name": "bash"}], "tool_choice": {"type": "any"},
         **user("x")})]
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    found += [(RESPONSES, {"max_output_tokens": 16, **b}) for b in (
        {"input": [{"role": "user", "content": "Hello"}, {"type": "item_reference", "id": "msg_1"},
                   {"role": "user", "content": "And?"}]},
        {"input": "x", "tools": [{"type": "namespace", "name": "mcp__a__", "tools": [
            flat("look", POINT, strict=False)]}], "tool_choice": "required"},
        {"input": "x", "tools": [{"type": t, "name": "t"} for t in (
            "custom", "mcp", "local_shell", "web_search", "of_no_type")]},
        {"input": [call, call, {"type": "function_call_output", "call_id": "d", "output": []}]},
        {"input": [{"type": t, "id": "i", "call_id": "c", "output": "x", "action": {}} for t in (
            "custom_tool_call", "custom_tool_call_output", "local_shell_call", "reasoning",
            "web_search_call", "compaction", "mcp_list_tools", "tool_search_call")]},
        {"input": "x", "previous_response_id": "resp_0", "store": False, "background": True},
        {"input": [], "include": ["reasoning.encrypted_content"], "truncation": "auto"},
        {"input": "x", "text": {"format": {"type": "json_schema", "name": "x", "schema": {
            "type": "integer", "minimum": BIG}}}})]
    found += [(COMPLETE, b) for b in (
        {"prompt": [], "max_tokens": 1}, {"prompt": [[]], "echo": True}, {"prompt": [-1, 99999]},
        {"prompt": ["a", 1]}, {"prompt": "a", "n": 3, "best_of": 2, "logprobs": 99},
        {"prompt": [1.0, 2]}, {"prompt": "a", "suffix": "b", "echo": True, "max_tokens": 0})]
    found += [("/tokenize", {"content": "a", "prompt": "b"}), ("/tokenize", {"content": 1}),
              ("/detokenize", {"tokens": [-1, 1 << 31]}), ("/detokenize", {"tokens": ["a"]}),
              ("/apply-template", user("x", add_generation_prompt=False)),
              ("/apply-template", {"messages": [{"role": "assistant", "content": None}]}),
              ("/infill", {"input_prefix": None, "prompt": 1, "input_extra": [{}]}),
              ("/v1/embeddings", {"input": [], "encoding_format": "x", "dimensions": 0}),
              ("/v1/rerank", {"query": "", "documents": [], "top_n": -1}),
              ("/v1/messages/count_tokens", {"messages": []}),
              ("/v1/responses/input_tokens", {"input": None})]
    told = {"messages": [{"role": "user", "content": "Hello", "images": ["eA==", 1]}], "model": ""}
    found += [("/api/chat", b) for b in (
        {**told, "stream": False, "options": {"num_predict": -2, "temperature": 1e30, "stop": 1}},
        {"messages": [], "keep_alive": 0}, {"messages": [{"role": "tool", "tool_name": "f"}]},
        {**user("x"), "format": {"type": "integer", "minimum": BIG}, "think": "high"},
        {**user("x"), "format": "json", "tools": [function("f", POINT)]})]
    found += [("/api/generate", b) for b in (
        {"prompt": "a", "suffix": "b", "raw": True, "context": [1, -1], "options": None},
        {"prompt": "a", "system": "s", "template": "{{ .Prompt }}", "images": []}, {"model": "x"})]
    found += [("/api/embed", {"input": [[]], "truncate": 1}), ("/api/show", {"name": "x"}),
              ("/api/embeddings", {"prompt": []}), ("/api/pull", {"model": "../x", "stream": 1})]
    texts = [(p, json.dumps(b, separators=(",", ":"))) for p, b in found]
    ask = json.dumps(user("Hello"))
    texts += [(CHAT, t) for t in (
        "\ufeff" + ask, ask + " x", ask[:-1], "[" * 900, '{"a":' * 300, "", "null", '"x"', "{}",
        ask.replace("3}", "1e999}"), ask.replace("3}", "NaN}"), ask.replace("3}", "3.0}"),
        ask.replace("3}", "-0}"), ask.replace("3}", "03}"), ask.replace("3}", "1" * 400 + "}"),
        '{"messages":1,"messages":[{"role":"user","content":"b"}]}',
        ask.replace("Hello", "\\ud83d"), ask.replace("Hello", "\\u0000"), ask.replace(":", ":\v"))]
    return texts


def as_bytes(text):
    return text.encode("utf-8", "surrogatepass")


# --- requests as bytes ------------------------------------------------------------------------

HOST = b"HTTP/1.1\r\nHost: localhost\r\n"


def post(path, body, *headers):
    lines = [b"Content-Type: application/json", *headers, b"Content-Length: %d" % len(body)]
    return b"POST " + path.encode() + b" " + HOST + b"\r\n".join(lines) + b"\r\n\r\n" + body


def requests():
    """Whole requests, or what looks like them."""
    body = as_bytes(json.dumps(user("Hello")))
    small = as_bytes(json.dumps({"content": "a"}))
    stream = as_bytes(json.dumps(user("Hello", stream=True)))
    for n in 100, 500, 4000:
        yield b"GET /health?" + b"a&" * n + b" " + HOST + b"\r\n"
    for path in (b"/", b"/livez", b"/v1/models", b"/v1/models/", b"/v1/models/%00", b"//health",
                 b"/metrics", b"/stats?key=secret", b"/slots", b"/props", b"/openapi.json", b"*",
                 b"/v1/responses/resp_1", b"/v1/responses/resp_1/input_items?order=asc",
                 b"http://localhost/version", b"http://x", b"/../health", b"/health?ready"):
        yield b"GET " + path + b" " + HOST + b"\r\n"
    yield b"GET /v1/models HTTP/1.1\r\nHost: host.evil.example\r\n\r\n"
    yield b"GET /v1/models HTTP/1.1\r\nHost: localhost.evil.example:8080\r\n\r\n"
    for keys in ((b"Authorization: Bearer secret",), (b"Authorization: Basic c2VjcmV0",),
                 (b"X-Api-Key: secret", b"Authorization: Bearer -"), (b"Authorization: Bearer",),
                 (b"Authorization: Bearer secret", b"Authorization: Bearer other")):
        yield post("/tokenize", small, *keys)
        yield post("/v1/chat/completions", stream, *keys)
    for headers in ((b"Origin: http://page",), (b"Origin: null", b"Sec-Fetch-Site: cross-site"),
                    (b"Expect: 100-continue",), (b"Content-Encoding: gzip",), (b"X-Request-Id: a\tb",),
                    (b"Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings"), (b"X: \xff\xfe",),
                    (b"Connection: close",), (b"Content-Type: text/plain", b"Origin: http://x"),
                    (b"traceparent: 00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01",),
                    (b"Content-Length: 3",), (b"Transfer-Encoding: chunked",)):
        yield post("/v1/chat/completions", body, *headers)
    head = b"POST /tokenize " + HOST
    size = b"%x" % len(small)
    for te in (b"chunked", b" chunked", b"chunked, chunked", b"identity", b"xchunked", b"Chunked"):
        yield head + b"Transfer-Encoding: " + te + b"\r\n\r\n" + size + b"\r\n" + small + b"\r\n0\r\n\r\n"
    for chunks in (size + b";a=b\r\n" + small + b"\r\n0\r\nX: y\r\n\r\n", b"0\r\n\r\n", b"-1\r\n",
                   b"\r\n" + size, size + b"\n" + small + b"\n0\n\n", b"fffffffffffffffff\r\n",
                   size + b"\r\n" + small + b"x\r\n0\r\n\r\n", b"0" * 40 + b"1\r\n{\r\n0\r\n\r\n"):
        yield head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    yield head + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET / " + HOST
    yield head + b"Content-Length: +5\r\n\r\nhello"
    yield head + b"Content-Length: 5, 5\r\n\r\nhello"
    yield head + b"Content-Length: 99999\r\n\r\nhello"
    yield head + b"Content-Length: 18446744073709551617\r\n\r\nhello"
    yield b"GET /health " + HOST + b"Content-Length: 3\r\n\r\nabcGET /livez " + HOST + b"\r\n"
    yield b"OPTIONS /v1/models " + HOST + (
        b"Origin: http://page\r\nAccess-Control-Request-Headers: x-a\r\n\r\n")
    yield b"DELETE /v1/responses/resp_1 " + HOST + b"\r\n"
    yield b"POST /v1/responses/resp_1/cancel " + HOST + b"Content-Length: 0\r\n\r\n"
    yield b"HEAD /openapi.json " + HOST + b"\r\nGET /version HTTP/1.0\r\n\r\n"
    yield b"GET /version HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
    yield b"\x16\x03\x01\0\x05\x01\0\0\x01\0"
    yield b"GET /health " + HOST + b"Cookie: " + b"a=b; " * 600 + b"\r\n\r\n"
    yield b"GET /health " + HOST + b"A: b\r\n" * 98 + b"\r\n"
    yield post("/v1/chat/completions", stream) + post("/tokenize", small) * 2
    for path in endpoints():
        yield post(path, body)


# --- files of models --------------------------------------------------------------------------

def configs(config):
    """config.json, generation_config.json and tokenizer_config.json, as texts, around a
    config.json that is taken."""
    top = json.dumps(config)[:-1]
    template = "{{ messages[0].content }}"
    for more in ('"max_position_embeddings": %d' % 10 ** 30, '"time_step_limit": [0.0, Infinity]',
                 '"rms_norm_eps": NaN', '"hidden_size": 64, "hidden_size": 32',
                 '"sliding_window_pattern": null, "sliding_window": null',
                 '"sliding_window_pattern": "LLLG"', '"tie_word_embeddings": true',
                 '"eos_token_id": [1, 2, 3, -1]', '"eos_token_id": %d' % 2 ** 40,
                 '"rope_scaling": {"type": "yarn", "factor": 0}', '"attention_bias": true',
                 '"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 1]}',
                 '"layer_types": ["full_attention", 1]', '"num_hidden_layers": 0',
                 '"head_dim": 1e3', '"vocab_size": -1', '"torch_dtype": "int3"'):
        yield top + ", " + more + "}", "{}", "{}"
    whole = json.dumps(config)
    yield "\ufeff" + whole, "{}", "{}"
    yield whole, '{"max_length": %d}' % 10 ** 30, '{"model_max_length": %d}' % 10 ** 30
    yield whole, '{"eos_token_id": [2], "temperature": Infinity, "top_p": -1}', '{"eos_token": 1}'
    named = [{"name": "default", "template": template}, {"name": "tool_use", "template": "x"}]
    for t in named, named[:1] * 2, named[1:], [{}], [1], {}, "{% x %}", "":
        yield whole, "{}", json.dumps({"chat_template": t})


TEMPLATES = (
    "{% for m in messages %}{% if loop.index0 > 1 %}{% break %}{% endif %}{{ m.content }}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ {'b': 1, 'a': [2]} | dictsort | tojson(indent=2) }}{{ messages[::-1][1:][0].role }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join('|') }}",
    "{{ strftime_now('%Y-%m-%d') }}{{ raise_exception('no') if n else '' }}",
    "{% set ns = namespace(x=0) %}{% for i in range(99) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% for i in range(999999999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{{ 'a' * 999999999 }}{{ [1] * 99999999 }}", "{{ n // 0 }}{{ n % 0 }}{{ -n }}{{ f | int }}",
    "{{ ''.__class__.__mro__ }}{{ cycler.__init__.__globals__ }}", "{{ " + "(" * 150 + ")" * 150 + " }}",
    "{%- filter upper -%} x {%- endfilter -%}{% call(x) f() %}{% endcall %}",
    "{% generation %}{{ messages[0]['content'].split('|')[99] }}{% endgeneration %}",
    "{# {{ #}{{ '\\u00e9\\ud800\\x00' }}{% raw %}{{ }}{% endraw %}")


def damaged(raw):
    """A file as a broken disk gives it back."""
    n = len(raw)
    yield raw[:n // 2]
    yield raw + b"\0"
    yield raw[:8] + bytes(8) + raw[16:]
    yield raw[:8] + b"\xff" * 8 + raw[16:]
    yield raw[n // 2:] + raw[:n // 2]
    for at in range(8, min(n, 72), 4):
        yield raw[:at] + struct.pack("<I", struct.unpack_from("<I", raw, at)[0] ^ 0x80000001) + raw[at + 4:]


def pictures():
    """PNGs that promise much, or lie."""
    def chunk(name, payload):
        return struct.pack(">I", len(payload)) + name + payload + struct.pack(
            ">I", zlib.crc32(name + payload))

    def png(width, height, depth, colour, *more, data=b"\0" * 99):
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(
            ">IIBBBBB", width, height, depth, colour, 0, 0, 0)) + b"".join(more) + chunk(
                b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
    text = zlib.compress(b"x" * 2000000, 9)
    yield png(60000, 60000, 1, 0)
    yield png(0, 1, 8, 2)
    yield png(8, 8, 8, 3)
    yield png(8, 8, 8, 0, chunk(b"zTXt", b"a\0\0" + text))
    yield png(8, 8, 8, 0, chunk(b"iCCP", b"a\0\0" + text))
    yield png(8, 8, 16, 6, chunk(b"acTL", bytes(8)), chunk(b"tRNS", bytes(300)))
