#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Characters that Unicode's versions see otherwise than Hugging Face's tokenizers do. They come
with Unicode 9 for normal forms, 8 for BERT, 15 for case and 16 for regular expressions; PCRE2 and
utf8proc with 14 or later.

Writes src/tokenizer/unicode_rows.def, and tests/golden/tokenizer/unicode.json with what the
library makes of every character: {"category": [[first, category], ...], and of each other
function a checksum of those of each 256 characters that it changes: {"nfd": {"0": crc32}}}.

Needs Python 3.11, whose unicodedata is of 14.0, and pip install tokenizers unicodedata2 (0.23.3
and 18.0 were used)."""
import json
import pathlib
import unicodedata
import zlib

import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

HERE = pathlib.Path(__file__).resolve().parent
ROWS = HERE.parent.parent / "src/tokenizer/unicode_rows.def"
GOLDEN = HERE / "tokenizer/unicode.json"
CPS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf "
              "Cn Co").split()
BERT = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False,
        "lowercase": False}


def changed(normalizer):
    """{code point: what it becomes}"""
    pairs = ((c, normalizer.normalize_str(chr(c))) for c in CPS)
    return {c: s for c, s in pairs if s != chr(c)}


def matched(step):
    """The characters that a step removes."""
    out = set()
    for i in range(0, len(CPS), 4096):
        part, kept = CPS[i:i + 4096], set()
        for _, (a, b) in step.pre_tokenize_str("".join(map(chr, part))):
            kept.update(part[a:b])
        out.update(set(part) - kept)
    return out


def of_regex(name):
    return matched(pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed"))


def bert_punctuation():
    """Parted from the letters beside it."""
    step = pre_tokenizers.BertPreTokenizer()
    return {c for c in CPS if len(step.pre_tokenize_str("a%sa" % chr(c))) == 3}


def is_inert(c, parts):
    """By Unicode 18: no decomposition, no order, no composition."""
    s = chr(c)
    return not (unicodedata2.decomposition(s) or unicodedata2.combining(s) or c in parts)


def parts_of_compositions():
    out = {}
    for c in CPS:
        d = unicodedata2.decomposition(chr(c))
        if d and "<" not in d and len(d.split()) == 2:
            pair = [int(x, 16) for x in d.split()]
            for x in pair if unicodedata2.normalize("NFC", chr(c)) == chr(c) else ():
                out.setdefault(x, []).append((pair, c))
    return out


def inert_here(nfd, nfkd, parts):
    """What the library leaves in every normal form, though Unicode 18 does not."""
    form, compose, out = normalizers.NFD(), normalizers.NFC(), set()
    for c in CPS:
        s = chr(c)
        if is_inert(c, parts) or c in nfd or c in nfkd:
            continue
        moves = form.normalize_str("a%s\u0334" % s) != "a%s\u0334" % s or \
            form.normalize_str("a\u0345" + s) != "a\u0345" + s
        joins = any(compose.normalize_str("%c%c" % tuple(pair)) == chr(to) or
                    compose.normalize_str(chr(to)) == chr(to) and to in nfd
                    for pair, to in parts.get(c, ()))
        if not moves and not joins:
            out.add(c)
    return out


def control(u, c):
    return c in (0, 0xFFFD) or u.category(chr(c)) in ("Cc", "Cf", "Co", "Cs") and c not in (
        9, 10, 13)




def rows_of(truth):
    """Runs of the same truth."""
    runs = []
    for c in sorted(truth):
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == truth[c]:
            runs[-1][1] = c
        else:
            runs.append([c, c, truth[c]])
    return runs


def checksums(changes):
    blocks = {}
    for c, s in changes.items():
        blocks.setdefault(c // 256, []).append("%x:%s" % (c, s))
    return {str(b): zlib.crc32(";".join(v).encode()) for b, v in sorted(blocks.items())}


def main():
    assert unicodedata.unidata_version == "14.0.0"
    category, parts = {}, parts_of_compositions()
    for name in CATEGORIES:
        category.update((c, name) for c in of_regex(name))
    han = of_regex("Han")
    nfd, nfkd = changed(normalizers.NFD()), changed(normalizers.NFKD())
    small, marks = changed(normalizers.Lowercase()), changed(normalizers.StripAccents())
    clean = changed(normalizers.BertNormalizer(**dict(BERT, clean_text=True)))
    bare = changed(normalizers.BertNormalizer(**dict(BERT, strip_accents=True)))
    punctuation, inert = bert_punctuation(), inert_here(nfd, nfkd, parts)
    versions, truth = (unicodedata, unicodedata2), {}
    for c in CPS:
        s, to = chr(c), small.get(c, chr(c))
        if len(to) > 1:
            continue
        here = (category[c], c in han and category[c] == "Lo", c in inert, c in marks, bare.get(c) == "",
                clean.get(c) == "", c in punctuation, ord(to) - c)
        differs = c in inert or here[7] != ord(s.lower()) - c
        for u in versions:
            k = u.category(s)
            differs |= (k, k[0] == "M", k == "Mn", control(u, c)) != (
                here[0], here[3], here[4], here[5])
            differs |= c > 127 and (k[0] == "P") != here[6]
        if differs:
            truth[c] = here
    lines = []
    for first, last, (k, is_han, *flags, delta) in rows_of(truth):
        names = [n for n, is_set in zip(("INERT", "MARK", "BERT_MARK", "BERT_CONTROL",
                                         "BERT_PUNCT"), flags) if is_set]
        names += ["HAN"] if is_han else []
        lines.append("ROW(0x%X, 0x%X, %s, %s, %d)" % (
            first, last, k.upper(), " | ".join(names) or "0", delta))
    ROWS.write_text("/* SPDX-License-Identifier: Apache-2.0\n *\n * Made by tests/golden/"
                    "make_unicode.py: ROW(first, last, category, flags, to lower case).\n */\n" +
                    "\n".join(lines) + "\n")
    runs = rows_of(category)
    GOLDEN.write_text(json.dumps({
        "category": [[a, k] for a, _, k in runs], "nfd": checksums(nfd), "nfkd": checksums(nfkd),
        "nfc": checksums(changed(normalizers.NFC())),
        "nfkc": checksums(changed(normalizers.NFKC())), "lower": checksums(small),
        "strip": checksums(marks), "bert_clean": checksums(clean), "bert_strip": checksums(bare),
        "bert_punct": checksums({c: "" for c in sorted(punctuation) if c > 127})},
        separators=(",", ":")) + "\n")
    print(len(truth), "characters in", len(lines), "rows")


if __name__ == "__main__":
    main()
