#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tokenizer/: what Hugging Face `tokenizers` (pip install
tokenizers; 0.23.3 was used) makes of awkward texts.

  base.json      one tokenizer.json, trained on halo-tiny's texts without splitting
                 into words, so that its merges cross every border that a
                 pre-tokenizer may draw and a wrong border shows in the ids
  variants.json  {"texts": [...], "variants": [{"name", "patch", "model", "ids",
                 "decoded", "skipped"}]}: keys of `patch` replace those of
                 base.json, keys of `model` those of its model. For texts[i]:
                 ids[i] (null: as in the first variant), decoded[i] (null: the
                 text itself), skipped[i] without special tokens (null: as
                 decoded)
  fallback_base.json, fallback.json  the same of a vocabulary of SentencePiece's kind:
                 U+2581 for spaces, and bytes for characters that are no piece

Run from anywhere; texts and training are deterministic.
"""
import copy
import json
import pathlib
import random
import sys

from tokenizers import (Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        trainers)

HERE = pathlib.Path(__file__).resolve().parent
TINY = HERE.parent.parent / "models" / "halo-tiny" / "tokenizations.json"

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = {
    "llama3": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES,
    "qwen2": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES,
    "qwen35": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + SPACES,
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES,
    "tekken": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES,
}
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + SPACES,
]
# Not from any model: what Oniguruma reads otherwise than PCRE2.
DIALECT = {
    "dialect-word": r"\w+|\W",
    "dialect-boundary": r"\b.",
    "dialect-hex": r"\h+\H?",
    "dialect-interval": r"\p{L}{2}+|\p{N}{,2}x|o{1}?",
    "dialect-options": r"a(?i)b|the|(?m:\n.)",
    "dialect-classes": r"[[:punct:]]+|[a-c[x-z]]+|[\s\-]",
    "dialect-empty": r"x*",
    "dialect-lines": r"^.|.$|\Z",
    "dialect-script": r"\p{Han}+|\p{Hiragana}|\p{^L}",
}
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
             "Contiguous"]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False,
              "trim_offsets": True, "use_regex": False}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior,
            "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": [*steps, BYTE_LEVEL]}


def added(id_, content, special=False, lstrip=False, rstrip=False,
          single_word=False, normalized=False):
    return {"id": id_, "content": content, "single_word": single_word,
            "lstrip": lstrip, "rstrip": rstrip, "normalized": normalized,
            "special": special}


def texts():
    """About ninety texts; every kind of border and every added token below."""
    own = [
        "", " ", "a", "Hello world", " Hello  world ", "I'll they'RE it'S we've",
        "don't 'tis 'S'T", "1234567 12 1 3.14", "x12y345z", "²³¼ ½a ⅷ ٣٤ 一二三",
        "tab\there\n\nnew  line \r\n end\n", "   \n  \n", "  a   b    ", "\t\t\ta",
        "\u00a0nbsp\u2003em\u3000ideo\u180emvs\u200bzw", "...!!!???--", "a.b,c;d:e",
        "/* code */ if (x[1]) { return \"s\\n\"; }\n", "http://a.b/c?d=e&f#g",
        "naïve café cafe\u0301 Å \u212b A\u030a", "e\u0301\u0323 e\u0323\u0301 \u1e69 s\u0323\u0307 s\u0307\u0323",
        "한국어 \u1112\u1161\u11ab\u1100\u116e\u11a8 \uac00\u11a8", "日本語テスト ガ カ\u3099 漢字かな交じり文",
        "中文，标点。！？一龥", "\uf900 \u2126 \ufb01 \u0344 \u0f73", "हिन्दी नमस्ते क़ \u0915\u093c",
        "العربية مَرْحَبًا", "ไทย สวัสดี", "Привет МИР ЁЖ е\u0308", "Ǆ ǅ ǆ ßẞ ΣΑΣ ʰ", "ſ K KELVIN 'ſ",
        "😀 👍🏽 👩‍👩‍👧 🇩🇪 ❤️ 1️⃣", "👨\u200d💻 \U0001f3f4\U000e0067\U000e007f",
        "a\u0300\u0301\u0302\u0303b", "\u0301start \u0338", ">\u0338 <t>\u0338 =\u0338", "\ufeffbom \ufffd \U0010ffff",
        "\u2028ls\u2029ps\x85nel\x0bvt\x0cff\x1cfs", "camelCaseWord HTTPServer iPhone XMLHttp", "ALLCAPS lower Title",
        "_under_score-dash ABC_def", "the the  the\nthe", "a,b ,c , d", "ab aB AB Ab the THE", "abcxyz bcd yz",
        "deadbeef DEADg 0x1F", "foo foooo oo", "1x 12x 123x x xx xxx", "a\nb\n\nc", "\n.", "no newline $",
        "<s>x</s>", "<S> <s>", "a<s> b", "a <s>b", "a  <s>  b", "<s><s>", "\n<s>\n", "<s>1 1<s> _<s> -<s>-",
        "<t>", "x <t> y", "  <t>  ", "<t><t>x", "<t>\u0301", "word words sword word_ word1 wordé word",
        "e\u0301cole école ecole", "XécoleX  école  ", "<|a|><|a|b|><|a|", "<|a|b|> <|a|>", "  pad  pad", "pad",
        "[X][XY][XYZ] [X", "a \n <w> \t b", "<w>\n\n<w>", "éü é<w>é ²<w>² \u200d<w> Ⓐ<w>", "\u00e0\u00e8 \u00ff\u0143", "Ġthe Ċ",
    ]
    # Words too long for the short way of merging
    rnd = random.Random(1)
    own += ["".join(rnd.choice("eeettaaooiinnsshhrrdlu") for _ in range(n))
            for n in (48, 49, 90, 200)]
    own += ["the" * 40, "ab" * 50 + "a", "aaab" * 30]
    tiny = [c["text"] for c in json.loads(TINY.read_text())]
    return own + [t for t in tiny if len(t) < 90][5::61]


def train():
    # Without the added tokens: these shall not be pieces
    own = [t for t in texts()
           if not any(a in t for a in ("<", "word", "cole", "pad", "[X"))]
    corpus = [c["text"] for c in json.loads(TINY.read_text())] + own * 2
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False,
                                                 use_regex=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700, show_progress=False, max_token_length=8,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tok.train_from_iterator(corpus, trainer)
    base = json.loads(tok.to_str())
    base["pre_tokenizer"] = sequence(split(WORDS["qwen2"]))
    return base


def variants(base):
    """(name, patch, model patch)"""
    n = len(base["model"]["vocab"])
    out = []

    def add(name, model=None, **patch):
        out.append((name, patch, model or {}))

    add("base")
    add("gpt2", pre_tokenizer={**BYTE_LEVEL, "use_regex": True})
    add("gpt2-prefix-space", pre_tokenizer={
        **BYTE_LEVEL, "use_regex": True, "add_prefix_space": True})
    for name, regex in WORDS.items():
        add(name, pre_tokenizer=sequence(split(regex)),
            normalizer={"type": "NFC"} if name.startswith("qwen") else None)
    add("qwen2-removed-inverted",
        pre_tokenizer=sequence(split(WORDS["qwen2"], "Removed", True)))
    add("deepseek-v3", pre_tokenizer=sequence(*[split(r) for r in DEEPSEEK]))
    for name, regex in DIALECT.items():
        add(name, pre_tokenizer=sequence(split(regex)))
    for b in BEHAVIORS:
        for invert in False, True:
            add(f"split-{b}-{invert}",
                pre_tokenizer=sequence(split(r"\s|a", b, invert)))
    add("split-string", pre_tokenizer=sequence(split("a.b", kind="String"),
                                               split(" ", kind="String")))
    for individual in False, True:
        add(f"digits-{individual}", pre_tokenizer={
            "type": "Sequence", "pretokenizers": [
                {"type": "Digits", "individual_digits": individual},
                {**BYTE_LEVEL, "use_regex": True}]})
    for behavior in {}, {"behavior": "Contiguous"}, {"behavior": "Removed"}:
        add("punctuation-" + behavior.get("behavior", "usual"), pre_tokenizer={
            "type": "Sequence", "pretokenizers": [
                {"type": "Punctuation", **behavior},
                {"type": "Digits", "individual_digits": True},
                {**BYTE_LEVEL, "use_regex": True}]})
    add("prefix-space-each", pre_tokenizer={
        "type": "Sequence", "pretokenizers": [
            split(r"\p{N}+|\s"), {**BYTE_LEVEL, "add_prefix_space": True}]})
    add("nfc-nested", normalizer={"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Sequence", "normalizers": []}]})
    add("merges-as-text", model={"merges": [
        " ".join(m) for m in base["model"]["merges"]]})
    # Words of the vocabulary that merging cannot reach
    few = {"merges": base["model"]["merges"][::2]}
    reach = set(base["model"]["vocab"])
    few["merges"] = [m for m in few["merges"]
                     if m[0] in reach and m[1] in reach and "".join(m) in reach]
    add("few-merges", model=few)
    add("ignore-merges", model={**few, "ignore_merges": True})
    # An alphabet with gaps: every fourth letter has no piece
    vocab = base["model"]["vocab"]
    gone = [p for p in sorted(vocab) if len(p) == 1][::4]
    kept = [p for p in sorted(vocab, key=vocab.get)
            if not any(g in p for g in gone)] + ["<unk>"]
    gaps = {"vocab": {p: i for i, p in enumerate(kept)},
            "merges": [m for m in base["model"]["merges"]
                       if not any(g in "".join(m) for g in gone)]}
    add("gaps", model=gaps)
    add("gaps-unk", model={**gaps, "unk_token": "<unk>"})
    add("gaps-fuse", model={**gaps, "unk_token": "<unk>", "fuse_unk": True})

    for bits in range(32):
        flags = dict(zip(("special", "lstrip", "rstrip", "single_word",
                          "normalized"), (bool(bits >> i & 1) for i in range(5))))
        add(f"added-{bits}", normalizer={"type": "NFC"}, added_tokens=[
            added(n, "<s>", **flags), added(n + 1, "word", **flags),
            added(n + 2, "école", **flags)])
    add("added-mixed", normalizer={"type": "NFC"}, added_tokens=[
        added(n, "<s>", special=True, rstrip=True),
        added(n + 1, "<t>", normalized=True),
        added(n + 2, "e\u0301cole", normalized=True),
        added(n + 3, "<|a|>", special=True), added(n + 4, "<|a|b|>"),
        added(n + 5, "  "), added(n + 6, "\n", rstrip=True),
        added(n + 7, "[X", single_word=True), added(n + 8, "[XY]"),
        added(n + 9, "pad", lstrip=True, normalized=True),
        added(n + 10, "<w>", lstrip=True, rstrip=True, single_word=True),
        added(n + 11, "éü"), added(n + 12, "Ġthe", normalized=True)])
    the = base["model"]["vocab"]["the"]
    add("added-piece", added_tokens=[added(the, "the", single_word=True),
                                     added(n, "AB", special=True)])
    return out


# --- SentencePiece's kind ----------------------------------------------------

SPACE = "\u2581"
PREPEND = {"type": "Prepend", "prepend": SPACE}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
BACK = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"}]
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def train_fallback():
    """Few letters are pieces, so that many characters are bytes."""
    corpus = [c["text"] for c in json.loads(TINY.read_text())] + texts() * 2
    corpus = [t for t in corpus if "word" not in t and "<" not in t]
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([
        normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    trainer = trainers.BpeTrainer(
        vocab_size=620, show_progress=False, max_token_length=8, limit_alphabet=70,
        initial_alphabet=[SPACE, "é"], special_tokens=special)
    tok.train_from_iterator(corpus, trainer)
    base = json.loads(tok.to_str())
    base["added_tokens"] = [a for a in base["added_tokens"] if a["id"] < 3]
    base["decoder"] = {"type": "Sequence", "decoders": BACK + [STRIP]}
    return base


def fallback_variants(base):
    """(name, patch, model patch)"""
    n, out = len(base["model"]["vocab"]), []
    legacy = {"normalizer": base["normalizer"], "pre_tokenizer": None}
    kept = base["added_tokens"]

    def metaspace(scheme, split, **more):
        step = {"type": "Metaspace", "replacement": SPACE, "split": split, **more}
        if scheme:
            step["prepend_scheme"] = scheme
        return {"normalizer": None, "pre_tokenizer": step}

    def add(name, patch, model=None):
        out.append((name, patch, model or {}))

    add("legacy", legacy)
    add("no-prefix", {
        "normalizer": REPLACE, "pre_tokenizer": split(" ", "MergedWithPrevious",
                                                      kind="String"),
        "decoder": {"type": "Sequence", "decoders": BACK}})
    for scheme in "first", "always", "never":
        for cut in False, True:
            add("metaspace-%s-%s" % (scheme, cut), metaspace(scheme, cut))
    add("ignore-merges", metaspace("first", True), {"ignore_merges": True})
    add("merges-as-text", legacy, {"merges": [
        " ".join(m) for m in base["model"]["merges"]]})
    for name, patch in (("legacy", legacy), ("first", metaspace("first", False))):
        for bits in range(0, 32, 3):
            flags = dict(zip(("normalized", "lstrip", "rstrip", "single_word", "special"),
                             (bool(bits >> i & 1) for i in range(5))))
            # Whose text Prepend has changed, tokenizers 0.23 does not know as special any
            # more when it decodes: no golden of that.
            if name == "legacy" and flags["normalized"]:
                flags["special"] = False
            new = [t for t in ("<t>", "word", "école", "\n.", "<s> <")
                   if t not in base["model"]["vocab"]]
            assert "word" in new
            add("%s-added-%d" % (name, bits), {**patch, "added_tokens": kept + [
                added(n + i, t, **flags) for i, t in enumerate(new)] + [
                added(base["model"]["vocab"]["the"], "the",
                      **{**flags, "special": False})]})
    return out


# --- normal forms --------------------------------------------------------------


def odd_texts():
    """Marks in any order, Hangul in parts, ligatures, full width, emoji, what is new in Unicode."""
    own = [
        "e\u0301 E\u0301\u0323 \u1e69 s\u0323\u0307 s\u0307\u0323 q\u0307\u0323\u0345", "\u00c5\u212b\u0041\u030a",
        "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab\u1100\u116e\u11a8 \uac00\u11a8 \u3131\u314f\uffa1\uffc2",
        "\ufb01\ufb02\ufb03 \ufb05 \u0132\u0133 \u01c4\u01c5\u01c6 \ufb2a\ufb1d", "\uff21\uff42\uff23\uff11\uff01 \uff76\uff9e \u30ac\u30ab\u3099",
        "\u00bd \u2152 \u00b2\u00b3 \u2460\u24d0 \u3392 \u337f \u32ff \ufdfa", "\u2126 \u212a \u1fbe \u0344 \u0374 \u037e \u2000\u2001",
        "\u0958 \u0915\u093c \u0f73\u0f75 \u0dd9\u0dcf", "\U0001d538\U0001d7d8 \U0001d15e \U0001f130\U0001f200",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \u2764\ufe0f 1\ufe0f\u20e3 \U0001f1e9\U0001f1ea",
        "\u0130 I\u0307 \u0131 \u00df\u1e9e \u03a3\u0391\u03a3 \u01c5 \u1f88 \u10a0\u1c90 \uab70\u13a0 \ua64a\u1c80",
        "\u1c89\u1c8a \ua7cb \ua7dc\u019b \U00010d50 \U00016ea0 \U0001e900", "a\u0897\u0301 \u1ac1\u0323 \U00010efd\u0323 \u0ebaa\u0323",
        "\U00011935\U00011930 \U00011938 \U000105d2\u0307 \U000105c9 \U00011382\U000113c9 \U00016121\U0001611e",
        "\U00031350\U00031351x \U0002ebf0 \U000323b0 \u9ffd \U0002a6de\U0002b739", "x\U00010d40\U00010d41 \U0001fae8\U0001fadf \U0001fa89 \u1c89x",
        "\U00011bc0a \U00016d43\U00016d67 \U0001e5d0\u0301", "\u0378\ufdd0\U0001fffe \ue000 \ufffd \u00ad\u200b\u2060\ufeff", "\t\n\u00a0\u3000 x \u2028\u2029\u0085 ",
        " Word  word\u0301 <S> <s> \u00c9COLE e\u0301cole", "``x'' \u201cy\u201d a  b   c", "\u0301\u0323a \u0338>\u0338", "a" * 40 + "\u0301" * 40 + "\u0323" * 3,
        "\uac01\u11a8 \u1100\u1161\u11a7 \u1100\uac00 \ua960\u1161\ud7cb", "na\u00efve Caf\u00e9 \u00dcBER \u1ea4\u1ec7 \u0439 \u0419\u0306"]
    return own + [t for t in texts() if not t.isascii()]


def normal_variants(base):
    """(name, patch, model patch)"""
    n, out = len(base["model"]["vocab"]), []
    forms = ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"]

    def replaced(pattern, content, kind="String"):
        return {"type": "Replace", "pattern": {kind: pattern}, "content": content}

    def add(name, *steps, **patch):
        patch["normalizer"] = steps[0] if len(steps) == 1 else {
            "type": "Sequence", "normalizers": list(steps)}
        out.append((name, patch, {}))

    for form in forms:
        add(form.lower(), {"type": form})
    for left, right in ((True, True), (True, False), (False, True)):
        add("strip-%d%d" % (left, right), {"type": "Strip", "strip_left": left,
                                           "strip_right": right})
    add("uncased", *({"type": f} for f in ("NFD", "Lowercase", "StripAccents")))
    add("compat", {"type": "NFKC"}, {"type": "Lowercase"}, replaced("``", '"'),
        replaced("''", '"'))
    add("spaces", replaced(" {2,}", " ", "Regex"), {"type": "Prepend", "prepend": "_"})
    add("letters", replaced(r"\p{L}\p{M}*", "L", "Regex"), replaced(r"\s+$", "", "Regex"))
    add("none")
    for bits in 0, 5, 31:
        flags = dict(zip(("normalized", "lstrip", "rstrip", "single_word", "special"),
                         (bool(bits >> i & 1) for i in range(5))))
        flags["special"] &= not flags["normalized"]  # as below
        add("added-%d" % bits, {"type": "NFKD"}, {"type": "Lowercase"}, added_tokens=[
            added(n, "<S>", **flags), added(n + 1, "Word", **flags),
            added(n + 2, "\u00c9cole", **flags)])
    return out


def normal_fallback(base):
    out, patch = [], {"added_tokens": base["added_tokens"], "pre_tokenizer": None}
    for form in "NFKC", "NFD", "Lowercase":
        out.append(("legacy-" + form, {**patch, "normalizer": {
            "type": "Sequence", "normalizers": [{"type": form}, PREPEND, REPLACE]}}, {}))
        for scheme in "first", "always":
            out.append(("metaspace-%s-%s" % (scheme, form), {
                **patch, "normalizer": {"type": form}, "pre_tokenizer": {
                    "type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme,
                    "split": False}}, {}))
    # As Gemini's: a tab is a piece, and has no piece for its byte.
    vocab = {"\t" if p == "<0x09>" else p: i for p, i in base["model"]["vocab"].items()}
    out.append(("tab", {**patch, "normalizer": REPLACE}, {"vocab": vocab}))
    return out


def overlay(base, patch, model):
    top = copy.deepcopy(base)
    top.update(patch)
    top["model"].update(model)
    return top


def dump(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def write(base, variants_of, base_name, name, samples=None):
    samples = samples or texts()
    found = []
    for variant, patch, model in variants_of(base):
        tok = Tokenizer.from_str(json.dumps(overlay(base, patch, model)))
        ids = [tok.encode(t, add_special_tokens=False).ids for t in samples]
        decoded = [tok.decode(i, skip_special_tokens=False) for i in ids]
        skipped = [tok.decode(i, skip_special_tokens=True) for i in ids]
        found.append({
            "name": variant, "patch": patch, "model": model,
            "ids": ids if not found else [
                None if a == b else a for a, b in zip(ids, found[0]["ids"])],
            "decoded": [None if d == t else d
                        for d, t in zip(decoded, samples)],
            "skipped": [None if s == d else s
                        for s, d in zip(skipped, decoded)]})
    out = HERE / "tokenizer"
    out.mkdir(exist_ok=True)
    (out / base_name).write_text(dump(base) + "\n")
    rows = ",\n".join(dump(v) for v in found)
    (out / name).write_text(
        '{"texts":' + dump(samples) + ',\n"variants":[\n' + rows + "]}\n")


def main(only=None):
    if only != "normal":
        write(train(), variants, "base.json", "variants.json")
        write(train_fallback(), fallback_variants, "fallback_base.json", "fallback.json")
    for base, of, name in (("base.json", normal_variants, "normal.json"),
                           ("fallback_base.json", normal_fallback, "normal_fallback.json")):
        top = json.loads((HERE / "tokenizer" / base).read_text())
        write(top, of, base, name, odd_texts())


if __name__ == "__main__":
    main(*sys.argv[1:])
