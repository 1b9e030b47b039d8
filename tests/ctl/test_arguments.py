#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command of haloctl, as its help lists them, with: no argument, an unknown flag, a
missing value, a wrong value, one argument too many, a file that is not there, a server that does
not answer. Each is refused with status 2 in words that name what was wrong, and no more than
three lines that say what to type."""
import glob
import os
import re

import tap
from tap import ok

NOWHERE = "http://127.0.0.1:9"
# What a command needs before it looks at anything else, and what it does without arguments.
NEEDS = {"generate": ["-m", "/nowhere", "-p", "x"], "verify": ["-m", "/nowhere"],
         "tokenize": ["-m", "/nowhere"], "detokenize": ["-m", "/nowhere"],
         "inspect": ["-m", "/nowhere"], "bench model": ["-m", "/nowhere"],
         "chat": ["-m", "/nowhere"], "doctor": ["--quick", "--root", "/nowhere"],
         "bench agents": ["/nowhere"],
         "kernels replay": ["/nowhere"], "kernels record": ["-m", "/nowhere", "-o", "/tmp/x"],
         "kernels report": ["/nowhere"]}
SERVERS = {"verify": ["--answers", "-u", NOWHERE], "bench serve": ["-u", NOWHERE],
           "chat": ["--url", NOWHERE]}
ALONE = {"doctor", "devices", "models", "chat", "kernels report", "kernels bench",
         "kernels predict", "bench serve"}  # need no argument


def run(*args):
    code, out, err = tap.haloctl(*args)
    return code, out.decode(), err


def commands(*above):
    _, out, _ = run(*above, "--help")
    return re.findall(r"^  (?:haloctl )?((?:bench )?[a-z]+) {2,}\S", out, re.M)


def refused(name, args, *words):
    code, out, err = run(*args)
    lines = err.splitlines()
    ok(code == 2 and lines and lines[-1].strip() and len(lines) <= 3 and
         all(w in err for w in words), "%s: %s" % (name, " ".join(args)), (code, out, err))


def walk(command):
    argv = command.split()
    code, help_, err = run(*argv, "--help")
    ok(code == 0 and help_.startswith("Usage: haloctl " + command) and not err and
       "(null)" not in help_,
         command + " --help", help_ + err)
    ok(all(re.match(r"  .{26} \S", x) or not re.search(r"\S  +\S", x[6:])
           for x in help_.splitlines() if re.match(r"  (-\w, |    )--", x)),
       command + " --help: its columns are straight", help_)
    flags = re.findall(r"^  (?:-(\w), |    )--([\w-]+)(?: (\S+))?", help_, re.M)
    hint = "haloctl %s --help" % command
    if command not in ALONE:
        refused("no argument", argv, "haloctl: ", hint)
    refused("an unknown flag", [*argv, "--nonsense"], '"--nonsense"', hint)
    refused("one argument too many", [*argv, "one", "two", "three"], "is not expected", hint)
    for _, flag, value in flags:
        if value:
            refused("a missing value", [*argv, "--" + flag], "--" + flag, "value", hint)
        if value in ("N", "S", "K", "C", "X"):
            refused("a wrong value", [*argv, "--" + flag, "many"], "--" + flag, "many", hint)
    if command in NEEDS:
        # A build without code objects asks for them first.
        kernels = os.path.join(os.environ.get("HALOD_BUILDDIR", "."), "kernels", "*.hsaco")
        has_code = command != "kernels record" or glob.glob(kernels)
        refused("no such file", [*argv, *NEEDS[command]], "/nowhere" if has_code else "--code")
    if command in SERVERS:
        refused("no server", [*argv, *SERVERS[command]], NOWHERE, "halod", "--url")
        if command != "verify":
            refused("a server without its flag", [*argv, NOWHERE], "use --url " + NOWHERE)


# A mistyped word, a word of another program, and what is said of it.
TYPOS = [
    (["pul", "Qwen/Qwen3-8B"], 2, 'no command "pul"; did you mean pull?'),
    (["bench", "serv"], 2, 'no command "bench serv"; did you mean bench serve?'),
    (["kernels", "predct"], 2, 'no command "predct"; did you mean predict?'),
    (["doctor", "--modle", "x"], 2, 'option "--modle"; did you mean --model?'),
    (["bench", "serve", "--concurency=4"], 2, 'did you mean --concurrency?'),
    (["pull", "--reviison", "x"], 2, "did you mean --revision?"),
    (["xyzzy"], 2, 'no command "xyzzy"\n'),
    (["rm", "a/b"], 2, "haloctl models --remove ORG/NAME"),
    (["list"], 2, "haloctl models lists"),
    (["run", "x"], 2, "haloctl chat --model"),
    (["serve"], 2, "halod serves"),
    (["pull", "-h"], 0, "Usage: haloctl pull"),
    (["help", "pull"], 0, "Usage: haloctl pull"),
    (["help", "bench", "agents"], 0, "Usage: haloctl bench agents"),
    (["help", "pul"], 2, "did you mean pull?"),
]


def main():
    names = [c for c in commands() if c != "kernels"]
    lab = ["kernels " + c for c in commands("kernels")]
    ok(len(names) > 12 and len(lab) == 6, "the commands", names + lab)
    for command in names + lab:
        walk(command)
    for words, status, said in TYPOS:
        code, out, err = run(*words)
        ok(code == status and said in out + err, " ".join(words), (code, out, err))
    for flag in ("--cache", "--remove"):
        refused("a server's list and a cache", ["models", "--url", NOWHERE, flag, "a/b"], "--url",
                flag)
    for tower in ("--image", "--audio"):
        refused("an adapter for a tower", ["kernels", "predict", "-m", "/nowhere", tower, "8",
                                           "--lora", "/nowhere"], "--lora", tower)
    for word in (["nonsense"], ["bench"], ["bench", "nonsense"], ["kernels", "nonsense"]):
        code, out, err = run(*word)
        wanted = "haloctl bench model" if word[0] == "bench" else "Usage"
        ok(code == 2 and not out and wanted in err, "no such command: " + " ".join(word),
           (code, out, err))
    tap.done()


main()
