#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draft tokens change no answer: a daemon that verifies as many draft tokens as it can beside
one that drafts nothing, to the last bit of every log-probability, for models of each kind
and with what else a request may ask for."""
import collections
import math
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from halod import CHECK, FIBERS, MODEL, PATIENCE, SRCDIR, Halod, Tap

sys.path.insert(0, os.path.join(SRCDIR, "tests/ctl"))
import gguf_file  # noqa: E402

GOLDEN = os.path.join(SRCDIR, "tests/golden/models")
NAMES = ("deepseekv3-yarn", "gemma3", "glm4moe-groups", "gptoss", "mistral-window",
         "qwen2-yarn-window", "qwen3-bf16", "qwen3moe-ct-asym", "llama4", "deepseekv32",
         "deepseekv4")
HYBRIDS = ("qwen3next", "qwen35", "qwen35moe", "qwen4exp", "falconh1", "kimilinear",
           "ling3", "glm5next")
# With an MTP layer. What those of the first one draft token is mostly right.
FOLLOWS = "qwen35-mtp"
MTP = (FOLLOWS, "qwen4exp-mtp", "deepseekv3-mtp", "glm4moe-mtp", "deepseekv32-mtp")
ON_FIBERS = ("deepseekv3-yarn", "gemma3", "gptoss", "qwen3moe-ct-asym", "qwen4exp")
# Of these also as llama.cpp's converter writes them (tests/golden/make_mtp_gguf.py).
# Those of the first one are mostly right, too.
HYBRID_GGUF = ("qwen3next-mtp",)
MTP_GGUF = HYBRID_GGUF + ("glm4moe-mtp",)
# Under a sanitizer time is short: fewer models, shorter answers, and no chi-square.
SHORT = "short" in CHECK
# Twice the same tokens: what follows the first part is a draft token of what follows the second.
PROMPT = [(i * 37 + i // 7) % 300 for i in range(40)] * 2
FEW = PROMPT[:10] * 2  # on fibers: draft tokens are made of the answer, and a prompt takes long
REPEAT = "Repeat: one two three four. one two three four. one two three four."
SCHEMA = {"type": "json_schema", "json_schema": {"name": "p", "schema": {
    "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"], "additionalProperties": False}}}
TOOLS = [{"type": "function", "function": {
    "name": "get_current_weather", "description": "Look up the weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}},
        "required": ["city"]}}}]


# Some small models have contexts of 512 tokens, and templates that show no tools. halod's own
# words about tools would fill them.
BRIEF = ("{% for t in tools or [] %}<tool>{{ t.function.name }}</tool>{% endfor %}"
         "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
         "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>"
         "{% endfor %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")


def chat(text, **more):
    return "/v1/chat/completions", {"temperature": 0, "max_tokens": 60 if SHORT else 160, **more,
                                    "messages": [{"role": "user", "content": text}]}


def raw(prompt, **more):
    return "/v1/completions", {"prompt": prompt, "max_tokens": 40, "temperature": 0,
                               "ignore_eos": True, "logprobs": 1, **more}


ASKED = {
    "a story": chat("Tell me a short story about a fox."),
    "text to repeat": chat(REPEAT),
    "log-probabilities": chat(REPEAT, logprobs=True, top_logprobs=3),
    "a schema": chat("Maria is 31. Give her name and age as JSON.", response_format=SCHEMA),
    "a tool": chat("What is the weather in Paris?", tools=TOOLS),
    "penalties": chat(REPEAT, frequency_penalty=0.5, repetition_penalty=1.1),
    "a stop string": chat("Tell me a short story about a dog.", stop=["day"]),
    "three choices by a seed": chat("Tell me a short story about a cat.", n=3,
                                    temperature=0.8, seed=7),
    "temperature 1 by a seed": chat("Tell me a short story about a cow.", temperature=1,
                                    seed=11, logprobs=True),
    "two choices without chance": chat(REPEAT, n=2),
    "a regular expression": chat("A row of numbers, please.", guided_regex="(12 34 ){8}5[6-9]",
                                 logprobs=True),
    "DRY, min_p, top_p, XTC": chat(REPEAT, dry_multiplier=0.8, min_p=0.02, top_p=0.9,
                                   xtc_probability=0.3, xtc_threshold=0.2, presence_penalty=0.3,
                                   temperature=0.9, seed=5),
    "the prompt's tokens, too": raw(PROMPT[:50], echo=True),
    "the rest of a prompt that is known": raw(PROMPT + PROMPT[:9]),
    "a prompt of ids": raw(PROMPT),
    # Random weights repeat nothing. With two tokens to choose from, they must.
    "two tokens only": raw(PROMPT, logit_bias={"11": 100, "12": 100}),
}


# Random weights take turns between a few tokens of one class, so some draft tokens are wrong. A
# recurrent state then goes back; later prompts resume where it was kept.
CLASS = {str(i): 100 for i in range(11, 15)}
# In FOLLOWS each of these but the last is mostly followed by the next one (mtp.json). Behind
# DRAWN lookup has something to draft as well.
CHAIN = [5, 99, 431, 145]
DRAWN = [CHAIN[i] for i in (0, 1, 2, 3, 0, 2, 1, 3, 2, 0, 3, 1) * 3 + (0, 1, 2, 3, 0)]
SOME = raw(PROMPT, max_tokens=60, logit_bias=CLASS, repetition_penalty=1.5, temperature=0.7,
           seed=3)
RESUMED = {
    "some of four tokens": SOME,
    "the same once more": SOME,
    "an answer goes on": raw(PROMPT + [11, 12, 13, 14] * 9, logit_bias=CLASS),
    "and from its middle": raw(PROMPT + [11, 12, 13, 14] * 5, logit_bias=CLASS),
}

def said(d, what):
    """What the answer says, without what differs from one to the next."""
    a = d.request("POST", *what).json
    if "choices" not in a:
        return a
    for c in a["choices"]:
        for call in c.get("message", {}).get("tool_calls") or ():
            del call["id"]
    return a["choices"], a["usage"]["completion_tokens"]


COLOURS = {"type": "json_schema", "json_schema": {"name": "c", "schema": {
    "type": "array", "items": {"enum": ["red", "blue"]}, "minItems": 6, "maxItems": 6}}}


def stopped(off):
    """Three letters that come late in what the model writes without a stop string."""
    path, body = SOME
    text = said(off, SOME)[0][0]["text"]
    stop = max((text[i:i + 3] for i in range(len(text) - 2)), key=text.index)
    return path, {**body, "stop": [stop]}


# What a request may ask for, so that models of random weights repeat themselves with it.
FEATURES = {
    "a prompt of ids": ASKED["a prompt of ids"],
    "two tokens only": ASKED["two tokens only"],
    "a grammar": ASKED["a regular expression"],
    "a schema": chat("Colours, please.", response_format=COLOURS, logprobs=True,
                     top_logprobs=2),
    "a tool": chat(REPEAT, tools=TOOLS, tool_choice="required", logit_bias=CLASS,
                   max_tokens=60, logprobs=True),
    "penalties": raw(PROMPT, logit_bias=CLASS, frequency_penalty=0.1, presence_penalty=0.1,
                     repetition_penalty=1.1),
    "a stop string": stopped,
    "several choices": raw(PROMPT, logit_bias=CLASS, n=3, seed=5, temperature=1),
    "log-probabilities of others": raw(PROMPT, logit_bias=CLASS, logprobs=4),
}
FACED = collections.defaultdict(lambda: [0, 0])  # of each feature: draft tokens, and right ones


def numbers(d):
    m = d.metrics()
    return [int(m["spec_decode_num_%s_total" % k])
            for k in ("drafts", "draft_tokens", "accepted_tokens")]


def both(t, name, asked, mode="lookup", want=None, drafter=None, **settings):
    """The same requests to both. Returns the one that drafts. `want`: a dict for the answers."""
    settings = {"self_check": "no", **settings}
    off = Halod(speculative="off", **settings)
    asked = {k: v(off) if callable(v) else v for k, v in asked.items()}
    want = {} if want is None else want
    want.update((k, said(off, v)) for k, v in asked.items())
    t.equal(numbers(off), [0, 0, 0], "%s: off drafts nothing" % name)
    t.equal([k for k, v in want.items() if isinstance(v, dict)], [], name + ": all are answered")
    off.stop()
    on = Halod(speculative=mode, **settings, **({"draft_model": drafter} if drafter else {}))
    for k, v in asked.items():
        before = numbers(on)
        t.equal(said(on, v), want[k], "%s: %s" % (name, k))
        FACED[k] = [n + b - a for n, a, b in zip(FACED[k], before[1:], numbers(on)[1:])]
    return on


def test_faced(t):
    """Over the models, draft tokens met every feature, and were right and wrong."""
    for k in FEATURES:
        drafted, right = FACED[k]
        t.ok(20 < right < drafted - 20, "%s: %d of %d draft tokens were right" % (k, right, drafted))


def by_position(d):
    m = d.metrics()
    return [int(m['spec_decode_num_accepted_tokens_per_pos_total{position="%d"}' % i])
            for i in range(15)]


def test_limits(t, on):
    """What a request allows of drafts."""
    asked = ASKED["two tokens only"]
    ask = lambda **more: on.request("POST", asked[0], {**asked[1], **more})
    want = said(on, asked)
    for limit in ({"speculative.n_max": 0}, {"speculative.n_min": 16},
                  {"speculative.p_min": 1}):
        before = numbers(on)
        a = ask(**limit).json
        t.ok("draft_n" not in a["timings"] and numbers(on) == before,
             "a request may do without: %s" % limit, a["timings"])
        t.equal((a["choices"], a["usage"]["completion_tokens"]), want, "its answer is the same")
    before, places = numbers(on), by_position(on)
    a = ask(**{"speculative.n_max": 3}).json["timings"]
    drafts, drafted, right = (b - a for a, b in zip(before, numbers(on)))
    t.ok(0 < drafted <= 3 * drafts and drafted == a["draft_n"], "three a step", a)
    places = [b - a for a, b in zip(places, by_position(on))]
    t.ok(sum(places) == right == a["draft_n_accepted"] and places == sorted(places)[::-1] and
         places[0] > 0 == places[3], "the right ones by their place", places)
    before = numbers(on)
    ask(**{"speculative.n_min": 5})
    drafts, drafted, right = (b - a for a, b in zip(before, numbers(on)))
    t.ok(drafted >= 5 * drafts > 0, "five at least", (drafts, drafted))
    for limit in ({"speculative.n_max": -1}, {"speculative.n_min": -1},
                  {"speculative.p_min": 1.5}):
        a = ask(**limit)
        t.ok(a.status == 400 and list(limit)[0] in a.error["message"], "refused: %s" % limit,
             a.body)


def chances(d, prompt, paths, temperature):
    """The model's own probability of each path of tokens of CHAIN, by their texts."""
    p, text = {(): 1.0}, {}
    for n in range(paths):
        for path in [k for k in p if len(k) == n]:
            logs = []
            for i in CHAIN:
                a = d.request("POST", *raw(prompt + list(path), max_tokens=1,
                                           logit_bias={str(i): 100})).json["choices"][0]
                text[i] = a["logprobs"]["tokens"][0]
                logs.append(a["logprobs"]["token_logprobs"][0])
            weights = [math.exp((x - max(logs)) / temperature) for x in logs]
            for i, w in zip(CHAIN, weights):
                p[path + (i,)] = p[path] * w / sum(weights)
    return {tuple(text[i] for i in k): v for k, v in p.items() if len(k) == paths}


def folded(counts, at):
    """Sums of the counts of paths that are alike at these places."""
    sums = collections.Counter()
    for path, n in counts.items():
        sums[tuple(path[i] for i in at)] += n
    return sums


def chi_square(seen, want, n):
    """(degrees of freedom, chi-square, how many deviations that is off) of counts to n times
    the probabilities."""
    # Rare ones together, so that each cell expects five at least.
    cells, rare = [], [0, 0.0]
    for key, p in want.items():
        if n * p >= 5:
            cells.append((seen[key], n * p))
        else:
            rare = [rare[0] + seen[key], rare[1] + n * p]
    cells += [rare] if rare[1] >= 5 else []
    chi = sum((k - e) ** 2 / e for k, e in cells)
    free = len(cells) - 1
    # Wilson and Hilferty, 1931: the cube root is nearly normal.
    z = ((chi / free) ** (1 / 3) - 1 + 2 / (9 * free)) / math.sqrt(2 / (9 * free))
    return free, chi, z


def test_distribution(t, mode):
    """At a temperature, answers of four tokens of a class of four have the distribution of the
    model: chi-square. Returns how often each came, which the seeds decide. There are so many
    that each mode alone shows a fault: where an eighth of all draft tokens is taken without being
    drawn, z is 17 to 27 by lookup and 7 to 9 by mtp."""
    temperature, n = 8, 16384
    d = Halod(speculative=mode, model=os.path.join(GOLDEN, FOLLOWS), self_check="no",
              max_choices="128", max_seqs="16")
    want = chances(d, DRAWN, 4, temperature)
    seen = collections.Counter()
    for i in range(n // 128):
        a = d.request("POST", *raw(DRAWN, n=128, max_tokens=4, temperature=temperature,
                                   logit_bias={str(k): 100 for k in CHAIN}, seed=i)).json
        seen.update(tuple(c["logprobs"]["tokens"]) for c in a["choices"])
    drafts, drafted, right = numbers(d)
    t.ok(mode == "off" or right > 200 and drafted - right > 200,
         mode + ": draft tokens were right and wrong", numbers(d))
    # Of whole answers, and of two tokens in a row: fewer cells see a smaller fault.
    for of, at in (("answers", range(4)), ("tokens 1 and 2", (0, 1)),
                   ("tokens 2 and 3", (1, 2)), ("tokens 3 and 4", (2, 3))):
        free, chi, z = chi_square(folded(seen, at), folded(want, at), n)
        t.ok(free >= 9 and abs(z) < 4,
             "%s, %s: chi-square %.1f of %d: z %.2f" % (mode, of, chi, free, z))
    d.stop()
    return seen


def words_of(answer):
    """Texts without their log-probabilities."""
    choices, n = answer
    return [(c["index"], c["text"], c["logprobs"]["tokens"]) for c in choices], n


def test_mtp_gguf(t, name):
    """As llama.cpp's converter writes it: the folder's answers, with as many right draft tokens. It
    writes a decay of recurrent layers as -exp of the folder's number, which changes the last
    bits of log-probabilities."""
    what = words_of if name in HYBRID_GGUF else lambda answer: answer
    asked = {"any token": raw(PROMPT, max_tokens=60), "the same behind less": raw(PROMPT[:33]),
             **{k: FEATURES[k] for k in ("two tokens only", "penalties", "several choices")}}
    model = os.path.join(GOLDEN, name)
    on = both(t, name + " as GGUF", asked, "mtp",
              model=os.path.join(SRCDIR, "tests/golden/formats", name + ".gguf"))
    same = Halod(model=model, speculative="mtp", self_check="no")
    first = {k: said(same, v) for k, v in asked.items()}  # as `both` has asked the other
    for k, v in asked.items():
        t.equal(said(same, v), first[k], "%s: %s a second time" % (name, k))
        t.equal(what(said(on, v)), what(first[k]),
                "%s as GGUF: %s as the folder answers" % (name, k))
    drafts, drafted, right = numbers(on)
    t.ok(drafted > 2 * drafts > 200 and (right > 100 or name not in HYBRID_GGUF),
         name + " as GGUF: there were draft tokens, and right ones", numbers(on))
    t.equal(numbers(on), numbers(same), "as many as the folder's")
    t.equal((on.stop(), same.stop()), (0, 0), "both end well")


def test_mtp_as_gguf(t, model, asked, want):
    """The folder's tokens, so its draft tokens must be as often right."""
    config = gguf_file.read_json(model, "config.json")
    tensors = gguf_file.hybrid_tensors(config, gguf_file.load(model), "\0")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.gguf")
        gguf_file.write(path, gguf_file.model_keys(config) +
                        gguf_file.tokenizer_keys(model, 512), tensors)
        on = both(t, "GGUF", dict(enumerate(asked)), "mtp", model=path)
        same = Halod(model=model, speculative="mtp")
        t.equal([said(same, v) for v in asked], want, "the folder again")
        t.ok(numbers(on)[2] > 100, "GGUF: many draft tokens were right", numbers(on))
        t.equal(numbers(on), numbers(same), "as many as of the folder's")
        same.stop()
        on.stop()


def test_mtp(t):
    """Drafts of the MTP layer."""
    for name in MTP[:1 if SHORT else 4]:
        model = os.path.join(GOLDEN, name)
        more = ASKED if name == FOLLOWS and not SHORT else {}
        on = both(t, name + " by mtp", FEATURES | RESUMED | more, "mtp", model=model,
                  max_seqs="4", tool_format="hermes",
                  mtp_vocab="0" if name == FOLLOWS else "256")
        drafts, drafted, right = numbers(on)
        # Some steps would have had room for no draft token, or for fewer than three.
        t.ok(drafted > 2 * drafts > 100, name + ": three draft tokens a step", numbers(on))
        if name == FOLLOWS:
            before = numbers(on)
            timings = on.request("POST", *raw(PROMPT, max_tokens=60)).json["timings"]
            t.ok(timings["draft_n_accepted"] >= 30, "most draft tokens were right", timings)
            t.equal([b - a for a, b in zip(before, numbers(on))][1:],
                    [timings["draft_n"], timings["draft_n_accepted"]], "metrics say so, too")
            a = on.request("POST", *raw(PROMPT, **{"speculative.n_max": 0})).json
            t.ok("draft_n" not in a["timings"], "a request may do without", a["timings"])
            a = on.request("POST", *raw(PROMPT, **{"speculative.n_max": 1})).json
            t.ok(0 < a["timings"]["draft_n"] <= 40, "or with one a step", a["timings"])
        t.equal(on.stop(), 0, name + ": ends well")
    # auto drafts by both. Its choices follow what steps cost here.
    model = os.path.join(GOLDEN, FOLLOWS)
    more = {"model": model, "tool_format": "hermes"}
    off, auto = Halod(speculative="off", **more), Halod(speculative="auto", **more)
    asked = [raw(PROMPT[i:], max_tokens=100) for i in range(6)]
    asked += [v for v in ({} if SHORT else FEATURES | RESUMED).values() if not callable(v)]
    want = [said(off, v) for v in asked]
    t.equal([said(auto, v) for v in asked], want, "auto with both")
    with ThreadPoolExecutor(4) as pool:
        t.equal(list(pool.map(lambda v: said(auto, v), asked)), want,
                "auto with both: four requests at once")
    t.equal((off.stop(), auto.stop()), (0, 0), "both end well")
    if not SHORT:
        test_mtp_as_gguf(t, model, asked[:6], want[:6])
    for name in MTP_GGUF[:1 if SHORT else 2]:
        test_mtp_gguf(t, name)
    d = Halod(speculative="mtp", wait=False)
    d.wait_log("error.*speculative = mtp: the model has no MTP layer")
    t.equal(d.wait(), 3, "a model without such a layer ends the start")
    d.stop()


def test_draft_model(t, want):
    """Drafts of a second model. halo-tiny is its own, which is right where nothing is left to chance
    and nothing of the vocabulary is ruled out. want: its answers to ASKED without drafts."""
    folder = tempfile.TemporaryDirectory()
    d = Halod(model=MODEL, speculative="draft", draft_model=MODEL, sleep_after="2s",
              self_check="no", kv_dir=folder.name)
    for k, v in ASKED.items():
        t.equal(said(d, v), want[k], "draft_model: " + k)
    a = d.request("POST", *chat("Tell me a story about a boat.")).json
    timings = a["timings"]
    t.ok(timings["draft_n_accepted"] > 0.9 * timings["draft_n"] > 0.8 * timings["predicted_n"],
         "without chance its draft tokens are right", timings)
    with ThreadPoolExecutor(4) as pool:
        few = list(ASKED)[::2]
        t.equal(list(pool.map(lambda k: said(d, ASKED[k]), few)), [want[k] for k in few],
                "draft_model: four requests at once")
    drafts, drafted, right = numbers(d)
    t.ok(drafts < right < drafted - 100, "most steps gave several tokens", numbers(d))
    deadline = time.monotonic() + PATIENCE
    while not d.metrics().get('model_unloads_total{reason="sleep"}') and \
            time.monotonic() < deadline:
        time.sleep(0.1)
    # Pages from the disk have nothing of the model that drafts: it reads them anew.
    t.equal(said(d, ASKED["a story"]), want["a story"], "after it slept")
    t.ok(d.metrics()["prompt_tokens_disk_total"] > 0, "with pages from the disk")
    drafts, drafted, right = (b - a for a, b in zip((drafts, drafted, right), numbers(d)))
    t.ok(right > 0.9 * drafted > 30, "and drafts as before", (drafts, drafted, right))
    t.equal(d.stop(), 0, "it ends well")
    folder.cleanup()
    # As auto has it, beside lookup; and two other kinds of models: states, and latent attention.
    d = Halod(model=MODEL, speculative="auto", draft_model=MODEL, threads=2)
    d.wait_log("draft_model .*halo-tiny: ")
    t.equal([said(d, ASKED[k]) for k in few], [want[k] for k in few], "auto with draft_model")
    t.equal(d.stop(), 0, "it ends well")
    on = both(t, "qwen35 by deepseekv3", FEATURES | RESUMED, "draft", tool_format="hermes",
              model=os.path.join(GOLDEN, "qwen35"),
              drafter=os.path.join(GOLDEN, "deepseekv3-yarn"), max_seqs="4")
    t.ok(numbers(on)[1] > 1000, "there were draft tokens", numbers(on))
    t.equal(on.stop(), 0, "it ends well")
    if os.path.exists(FIBERS):
        model = os.path.join(GOLDEN, "qwen3-bf16")
        on = both(t, "draft_model on fibers", {"any token": raw(PROMPT[:8], max_tokens=8)},
                  "draft", model=model, drafter=model, backend="hip", hip_library=FIBERS, ctx=256,
                  max_seqs=2)
        drafts, drafted, right = numbers(on)
        t.ok(drafted > 4 and right >= drafted - 1, "on fibers its draft tokens are right",
             numbers(on))
        on.stop()


def test_head(t):
    """Drafts of an EAGLE-3 head. The first draft token of that of FOLLOWS is mostly right."""
    head = os.path.join(SRCDIR, "tests/golden/drafters", FOLLOWS + "-eagle3")
    more = {"model": os.path.join(GOLDEN, FOLLOWS), "drafter": head}
    on = both(t, "a head", FEATURES | RESUMED, "draft", tool_format="hermes", max_seqs="4", **more)
    timings = on.request("POST", *raw(PROMPT, max_tokens=60)).json["timings"]
    t.ok(timings["draft_n_accepted"] >= 15, "draft tokens of a head were right", timings)
    asked = [v for v in FEATURES.values() if not callable(v)]
    want = [said(on, v) for v in asked]
    with ThreadPoolExecutor(4) as pool:
        t.equal(list(pool.map(lambda v: said(on, v), asked)), want, "a head: four at once")
    t.equal(on.stop(), 0, "it ends well")
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        for is_read in (False, True):
            d = Halod(speculative="draft", self_check="no", kv_dir=folder,
                      model=os.path.join(GOLDEN, "smollm3"),
                      draft_model=os.path.join(SRCDIR, "tests/golden/drafters/smollm3-eagle3"))
            answers.append(d.request("POST", *raw(PROMPT)).json)
            timings = answers[-1]["timings"]
            t.equal((timings["disk_n"] > 0, "draft_n" in timings), (is_read, not is_read),
                    "pages from the disk lack a head's keys: it drafts nothing behind them")
            t.equal(d.stop(), 0, "it ends well")
    t.equal(answers[1]["choices"], answers[0]["choices"], "the answer is the same")
    if os.path.exists(FIBERS):
        on = both(t, "a head on fibers", {"any token": raw(PROMPT[:8], max_tokens=8)}, "draft",
                  backend="hip", hip_library=FIBERS, ctx=256, max_seqs=2, **more)
        t.ok(numbers(on)[2] > 0, "on fibers draft tokens of a head were right", numbers(on))
        on.stop()


def main():
    t = Tap()
    want = {}
    on = both(t, "halo-tiny", ASKED, want=want, model=MODEL)
    drafts, drafted, right = numbers(on)
    t.ok(0 < drafts < drafted and 0 < right <= drafted, "draft tokens were verified",
         (drafts, drafted, right))
    timings = on.request("POST", *ASKED["two tokens only"]).json["timings"]
    t.ok(timings.get("draft_n", 0) >= timings.get("draft_n_accepted", 0) > 0,
         "timings tell", timings)
    on.wait_log('"draft_tokens":%d,"accepted_tokens":%d' % (timings["draft_n"],
                                                            timings["draft_n_accepted"]))
    test_limits(t, on)
    on.stop()
    # Its drafts follow what steps cost here, so they differ from run to run.
    auto = Halod(model=MODEL, speculative="auto", threads=2)
    auto.wait_log("speculation: steps of some tokens take 1: ")
    for k, v in () if SHORT else ASKED.items():
        t.equal(said(auto, v), want[k], "auto: " + k)
    with ThreadPoolExecutor(4) as pool:
        few = list(ASKED) * (1 if SHORT else 2)
        t.equal(list(pool.map(lambda k: said(auto, ASKED[k]), few)), [want[k] for k in few],
                "auto: four requests at once")
    t.ok(numbers(auto)[0] > 0, "auto: there were draft tokens", numbers(auto))
    t.equal(auto.stop(), 0, "it ends well")
    few = {k: ASKED[k] for k in ("a prompt of ids", "two tokens only")}
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write(BRIEF)
        template.flush()
        for name in NAMES[::6 if SHORT else 1]:
            on = both(t, name, FEATURES, model=os.path.join(GOLDEN, name), tool_format="hermes",
                      chat_template=template.name)
            t.ok(numbers(on)[1] > 0, name + ": there were draft tokens", numbers(on))
            on.stop()
    for name in HYBRIDS[::3 if SHORT else 1]:
        on = both(t, name, RESUMED if SHORT else FEATURES | RESUMED,
                  model=os.path.join(GOLDEN, name), tool_format="hermes")
        drafts, drafted, right = numbers(on)
        t.ok(0 < right < drafted, name + ": some draft tokens were right", numbers(on))
        on.stop()
    on = both(t, "lfm2", few, model=os.path.join(GOLDEN, "lfm2"))
    t.equal(numbers(on), [0, 0, 0], "lfm2: its state cannot go back, so nothing is drafted")
    on.stop()
    test_mtp(t)
    test_draft_model(t, want)
    test_head(t)
    if not SHORT:
        test_faced(t)
    # Chi-square allows for chance. By their seeds the answers are those without drafts.
    drawn = None if SHORT else test_distribution(t, "off")
    for mode in () if SHORT else ("lookup", "mtp"):
        t.equal(test_distribution(t, mode), drawn, mode + ": the same answers by their seeds")
    for name in ON_FIBERS[:1 if SHORT else 5] if os.path.exists(FIBERS) else ():
        on = both(t, name + " on fibers", {"two tokens only": raw(
            FEW, max_tokens=24, logit_bias={"11": 100, "12": 100},
            **{"speculative.n_max": 3})},
                  model=os.path.join(GOLDEN, name), backend="hip", hip_library=FIBERS)
        drafts, drafted, right = numbers(on)
        t.ok(drafted > 0, name + " on fibers: there were draft tokens", numbers(on))
        # Each step with drafts gives one token, and those that were right.
        replays = on.metrics()["graph_replays_total"]
        t.ok(drafts > 3 and replays > 24 - drafts - right,
             name + " on fibers: steps with drafts were replayed", (drafts, right, replays))
        on.stop()
    for name in MTP[:1 if SHORT else 3] if os.path.exists(FIBERS) else ():
        on = both(t, name + " on fibers", {"two tokens only": raw(
            FEW, max_tokens=12, logit_bias={"11": 100, "12": 100}),
            "any token": raw(PROMPT[:12], max_tokens=12)}, "mtp",
                  model=os.path.join(GOLDEN, name), backend="hip", hip_library=FIBERS)
        t.ok(numbers(on)[1] > 0 and (numbers(on)[2] > 0 or name != FOLLOWS),
             name + " on fibers: there were draft tokens", numbers(on))
        on.stop()
    t.done()


main()
