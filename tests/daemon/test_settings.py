#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every setting of src/daemon/config.def with what it cannot be: a word for a number, a file
that is not there, a folder for a file, a file for a folder, one that may not be read, one of
other bytes. `halod --check-config` and a start say the same words and end with the same
status, and nothing is accepted that has no effect. A new setting needs a row here."""
import os
import re
import shutil
import subprocess
import tempfile

from daemon import CHECK, MODEL, PATIENCE, PROGRAM, SRCDIR, Tap

NOBODY = 54321  # root may read and write everything
# Texts that can be anything, or that no file is behind.
FREE = {"model_name", "aliases"}
VISION = os.path.join(SRCDIR, "tests/golden/vision")
# What each setting of a file, of a folder or of words may not be, beside the usual. {} is the
# test's folder; `with`: other settings that it needs.
FILES = {"model": "", "embedding_model": "", "rerank_model": "", "lora": "",
         "draft_model": "speculative = auto", "transcription_model": "", "chat_template": "",
         "aligner_model": "transcription_model = %s/qwen3asr" % VISION,
         "mmproj": "", "tls_cert": "tls_key = {}/fine", "tls_key": "tls_cert = {}/cert",
         "api_key_file": "", "hip_library": "backend = hip"}
FOLDERS = {"image_dir": False, "hip_kernels": False, "models_dir": False,
           # True: made where it is not there; it must be writable
           "weight_cache": True, "expert_dir": True, "kv_dir": True,
           "state_dir": True}
WORDS = {
    "chat_template_kwargs": ["{", "[1]", "{\"a\": }"],
    "host": ["no.such.host.invalid", "1.2.3.4.5", ""],
    "unix_socket": ["{}/none/socket", "{}/text", "{}/" + "x" * 120],
    "tls_priorities": ["NORMAL"],  # no effect without a certificate
    "cors_origins": ["localhost:3000", "http://a/", "https://a, b", "http://"],
    "image_urls": ["ftp://a", "nas", "https://a/?x"],
    "otlp_endpoint": ["localhost:4318", "ftp://a"],
}
# Values that are well formed, and that nothing would come of.
IDLE = ["metrics_need_key = yes", "max_requests_per_key = 2", "speculative = mtp",
        "speculative = draft", "draft_model = {}/halo-tiny\nspeculative = lookup",
        "draft_model = {}/last\nspeculative = auto",
        "kv_dir = {}/kv\nprefix_cache = no", "mmproj = {}/text\nimages = off\naudio = off",
        "mmproj = {}/text\nimages = off",
        "expert_memory = many", "expert_memory = 1G\nexact = yes", "ctx = 16777216",
        "backend = hip\nhip_library = {}/text",
        "rerank_model = {}/last", "embedding_model = {}/halo-tiny", "model = {}/last",
        "transcription_model = {}/halo-tiny", "transcription_model = {}/last",
        "aligner_model = %s/qwen3aligner" % VISION, "model = %s/qwen3aligner" % VISION,
        "transcription_model = %s/qwen3aligner" % VISION,
        "model = %s/qwen3asr\naligner_model = %s/qwen3asr" % (VISION, VISION),
        "mmproj = {}/halo-tiny/model.safetensors"]


def table():
    """[(key, type, default, choices or None)]"""
    with open(os.path.join(SRCDIR, "src/daemon/config.def"), encoding="utf-8") as f:
        text = f.read()
    return [(m[2], m[3] or "CHOICE", m[4]) for m in re.finditer(
        r'^(KEY|CHOICE)\((\w+), (?:(\w+), )?"((?:[^"\\]|\\.)*)"', text, re.M)]


def be_nobody():
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def run(program, *args):
    p = subprocess.run([program, *args], stdin=subprocess.DEVNULL, text=True, timeout=PATIENCE,
                       capture_output=True, preexec_fn=be_nobody)
    return p.returncode, p.stdout, [line for line in p.stderr.splitlines()
                                    if line.startswith("halod: error: ")]


class Case:
    def __init__(self, t, tmp):
        self.t, self.tmp = t, tmp
        self.n = 0

    def path(self, name):
        return os.path.join(self.tmp, name)

    def both_ways(self, lines):
        """What a check and a start say of these lines. Under a sanitizer every other one is only
        checked: a start comes to the same faults."""
        conf = self.path("halod.conf")
        keys = [line.split(" = ")[0] for line in lines.splitlines()]
        with open(conf, "w") as f:
            f.write(lines + "\n")
            for other in ("self_check = off", "port = 0", "speculative = off",
                          "model = " + self.path("halo-tiny")):
                if other.split(" = ")[0] not in keys:
                    f.write(other + "\n")
        program = self.path("halod")
        seen = run(program, "-c", conf, "--check-config")
        self.n += 1
        starts = seen[0] and not ("short" in CHECK and self.n % 2)  # accepted, it would serve
        return seen, run(program, "-c", conf) if starts else None

    def refused(self, name, lines, *words):
        """Both ways end alike, and the last words name what is wrong."""
        seen, begun = self.both_ways(lines.replace("{}", self.tmp))
        said = "\n".join(seen[2])
        self.t.ok(seen[0] in (2, 3, 4) and seen[2] and not seen[1] and
                  all(w.replace("{}", self.tmp) in said for w in words),
                  "refused: " + name, (seen, words))
        # A start ends at its first fault of a model, behind all others that a check tells.
        self.t.ok(not begun or (begun[0] == seen[0] and begun[2] and
                                begun[2] == seen[2][:len(begun[2])]),
                  "  a start says the same", (seen, begun))

    def each_refused(self, keys, what, value):
        """One file with a fault in each line: all are told, by both ways."""
        seen, begun = self.both_ways("\n".join("%s = %s" % (key, value) for key in keys))
        said = dict(re.findall(r"halod\.conf:(\d+): (.*)", "\n".join(seen[2])))
        self.t.ok(seen[0] == 2 and not seen[1] and len(seen[2]) == len(keys), "each refused", seen)
        for n, key in enumerate(keys, 1):
            self.t.ok(key in said.get(str(n), ""), "refused: %s = %s" % (key, what), said.get(str(n)))
        self.t.ok(begun in (None, seen), "  a start says the same", (begun, seen))


def test_several(t, c):
    """Faults of folders, of what clients need and of models, at once: a check tells each."""
    lines = ["model = /none/model", "kv_dir = /none/kv", "state_dir = /none/state",
             "tls_cert = /none/cert", "tls_key = /none/key", "api_key_file = /none/keys",
             "unix_socket = /none/socket"]
    seen, begun = c.both_ways("\n".join(lines))
    for key, words in (("kv_dir", "kv_dir = /none/kv"), ("state_dir", "state_dir = /none/state"),
                       ("tls_cert", "tls_cert: /none/cert"), ("keys", "API keys: /none/keys"),
                       ("unix_socket", "/none/socket"), ("model", "model: /none/model")):
        t.ok(sum(words in line for line in seen[2]) == 1, "several faults: " + key, seen)
    t.ok(seen[0] == 2 and len(seen[2]) == 6, "and no other", seen)
    t.ok(not begun or (begun[0] == 2 and begun[2] == seen[2][:len(begun[2])]),
         "  a start says the first of them", (seen, begun))


def lay_out(c):
    """Files that are not what they should be, and a certificate. And halod and its models: the
    tree may lie where nobody may look, as /root."""
    shutil.copy(PROGRAM, c.path("halod"))
    os.chmod(c.path("halod"), 0o755)
    for folder in MODEL, os.path.join(SRCDIR, "tests/golden/readers/last"):
        to = c.path(os.path.basename(folder))
        shutil.copytree(folder, to)
        for path, _, names in os.walk(to):
            os.chmod(path, 0o755)
            for name in names:
                os.chmod(os.path.join(path, name), 0o644)
    with open(c.path("text"), "w") as f:
        f.write("\x01 no file of any format\n")
    with open(c.path("cert"), "w") as f:
        f.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with open(c.path("fine"), "w") as f:
        f.write("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    for name in "empty", "closed", "shut":
        os.mkdir(c.path(name))
    shutil.copy(c.path("text"), c.path("secret"))
    os.chmod(c.path("secret"), 0)
    os.chmod(c.path("shut"), 0)
    os.chmod(c.path("closed"), 0o555)
    os.chmod(c.tmp, 0o755)


def test_file(c, key, more):
    more = "\n" + more if more else ""
    own = key.split("_")[0] if key == "api_key_file" else key
    own = {"api": "API keys", "model": "cannot load the model"}.get(own, own)
    for what, value in (("is not there", "{}/none"), ("may not be read", "{}/secret"),
                        ("is in a folder that may not be read", "{}/shut/file"),
                        ("is an empty folder", "{}/empty"), ("is another file", "{}/text")):
        if key == "chat_template" and value == "{}/text":
            continue  # a text is a template
        c.refused("%s %s" % (key, what), "%s = %s%s" % (key, value, more), value, own)


def test_folder(c, key, is_made):
    rows = [("is a file", "{}/text"), ("may not be read", "{}/shut"),
            ("is in a folder that may not be read", "{}/shut/folder"),
            ("is below a folder that is not there", "{}/none/folder")]
    rows.append(("may not be written", "{}/closed") if is_made else ("is not there", "{}/none"))
    for what, value in rows:
        c.refused("%s %s" % (key, what), "%s = %s" % (key, value), value, key)


def main():
    t = Tap()
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="halod-test-") as tmp:
        c = Case(t, tmp)
        lay_out(c)
        rows = table()
        t.ok(len(rows) > 60, "the table of settings is read", rows)
        texts = [row for row in rows if row[1] in ("TEXT", "LIST")]
        for key, _, default in texts:
            t.ok(sum(key in x for x in (FREE, FILES, FOLDERS, WORDS)) == 1 or default == "0",
                 "%s has a row in this test" % key)
        others = [key for key, kind, _ in rows if kind not in ("TEXT", "LIST")]
        c.each_refused(others, "a word", "nonsense")
        c.each_refused(others, "nothing", '""')
        for key, more in FILES.items():
            test_file(c, key, more)
        for key, is_made in FOLDERS.items():
            test_folder(c, key, is_made)
        for key, values in WORDS.items():
            for value in values:
                c.refused("%s = %s" % (key, value[:40]),
                          '%s = "%s"' % (key, value.replace('"', '\\"')), "")
        for lines in IDLE:
            c.refused(lines.replace("\n", ", "), lines)
        test_several(t, c)
        os.chmod(c.path("shut"), 0o700)
    t.done()


main()
