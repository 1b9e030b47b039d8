#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bash and zsh complete halod and haloctl: the functions of conf/completions are asked what
they offer, and that must be what --help tells. A shell that is not installed is skipped."""
import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time

import tap

FOLDER = os.path.abspath(os.path.join(tap.SRC, "conf", "completions"))
BUILD = os.path.abspath(tap.BUILD)
PATIENCE = 60  # seconds
BASH = r"""
. "$1"
while IFS=' ' read -r -a COMP_WORDS; do
	[[ ${COMP_WORDS[-1]} == END ]] && COMP_WORDS[-1]=
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	_halod 2>/dev/null
	echo "${COMPREPLY[*]}"
done
"""
# A widget that completes each line of a file with all matches, and writes them down.
ZSH = r"""
fpath=(%(folder)s $fpath)
autoload -Uz compinit && compinit -u -D
zle -C offer-all complete-word offer
offer() { _main_complete; compstate[insert]=all; compstate[list]=; }
offer-each() {
	local line
	for line in ${(f)"$(<%(lines)s)"}; do
		line=${line%%END}
		BUFFER=$line CURSOR=$#line
		zle offer-all
		print -r -- ${BUFFER#$line} >>%(out)s
	done
	print done >%(out)s.done
	exit
}
zle -N offer-each
bindkey '^T' offer-each
print ready >%(out)s.ready
"""


def help_of(*command):
    p = subprocess.run([os.path.join(BUILD, command[0]), *command[1:], "--help"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                       timeout=PATIENCE, check=True)
    return p.stdout


def commands(text):
    return re.findall(r"(?m)^  ([a-z-]+(?: [a-z]+)?)  ", text)


def options(text):
    """--[no-]x is two of them."""
    found = set()
    for no, name in re.findall(r"(?m)^ +(?:-\w, )?--(\[no-\])?([a-z0-9-]+)", text):
        found |= {"--" + name} | ({"--no-" + name} if no else set())
    return found


def cases():
    """(line, what must be offered); the word END is an empty one, at the cursor."""
    top = commands(help_of("haloctl"))
    yield "haloctl END", {c.split()[0] for c in top}
    yield "haloctl bench END", {c.split()[1] for c in top if c.startswith("bench ")}
    lab = commands(help_of("haloctl", "kernels"))
    yield "haloctl kernels END", set(lab)
    for command in top + ["kernels " + c for c in lab]:
        if command != "kernels":
            yield ("haloctl %s --" % command, options(help_of("haloctl", *command.split())))
    yield ("haloctl verify --answers --", options(help_of("haloctl", "verify", "--answers")))
    yield "haloctl generate --backend END", {"auto", "cpu", "hip"}
    yield "haloctl bench model --backend c", {"cpu"}
    yield "haloctl bench serve -k END", set()
    text = help_of("halod")
    yield "halod --", options(text)
    for name in ("tool-format", "speculative", "log-format"):
        words = re.search(r"--%s WORD(?:\n   .*)*?one\s+of:\s+([^.]*)\." % name, text).group(1)
        yield "halod --%s END" % name, set(words.split())
    yield "halod --port END", set()
    yield "halod --port 9000 --log-le", {"--log-level"}
    yield "halod --model %s/halo-t" % os.path.join(os.path.abspath(tap.SRC), "models"), {
        os.path.join(os.path.abspath(tap.SRC), "models", "halo-tiny")}


def environment():
    return {**os.environ, "PATH": BUILD + ":" + os.environ["PATH"], "TERM": "dumb",
            "LC_ALL": "C.UTF-8"}


def by_bash(lines, tmp):
    p = subprocess.run(["bash", "--norc", "-c", BASH, "bash",
                        os.path.join(FOLDER, "halod.bash")], input="\n".join(lines) + "\n",
                       stdout=subprocess.PIPE, text=True, timeout=PATIENCE, env=environment())
    return p.stdout.split("\n")


def drain(fd):
    """What the shell prints is of no interest, but it must not wait for a reader."""
    while select.select([fd], [], [], 0.02)[0]:
        try:
            if not os.read(fd, 65536):
                return
        except OSError:
            return


def wait_for(path, fd):
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        drain(fd)
        assert time.monotonic() < deadline, "zsh wrote no " + path


def by_zsh(lines, tmp):
    """zsh completes only in a terminal."""
    places = {"folder": FOLDER, "lines": tmp + "/lines", "out": tmp + "/out"}
    with open(places["lines"], "w") as f:
        f.write("\n".join(lines))
    with open(tmp + "/setup", "w") as f:
        f.write(ZSH % places)
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], environment())
    try:
        os.write(fd, ("source %s/setup\n" % tmp).encode())
        wait_for(tmp + "/out.ready", fd)
        drain(fd)
        os.write(fd, b"\x14")
        wait_for(tmp + "/out.done", fd)
    finally:
        os.close(fd)
        os.waitpid(pid, 0)
    with open(tmp + "/out") as f:
        return f.read().split("\n")


def main():
    wanted = list(cases())
    for shell, ask in (("bash", by_bash), ("zsh", by_zsh)):
        if not shutil.which(shell):
            tap.ok(True, "%s # SKIP not installed" % shell)
            continue
        tmp = tempfile.mkdtemp(prefix="halod-completions-")
        try:
            offered = ask([line for line, _ in wanted], tmp)
        finally:
            shutil.rmtree(tmp, ignore_errors=True)
        for (line, want), got in zip(wanted, offered):
            # zsh shows what it adds to the word at the cursor, and the rest whole.
            got = {word.rstrip("/") for word in got.split()}
            if shell == "zsh" and not line.endswith("END"):
                word = line.split()[-1]
                got = {g if g.startswith(word) else word + g for g in got}
            tap.ok(got == want, "%s: %s" % (shell, line.replace("END", "")),
               "missing %s\nbeyond %s" % (sorted(want - got), sorted(got - want)))
    tap.done()


main()
