#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chat of the page in a real browser, with answers by the script (scripted.py): Markdown,
hostile answers, conversations that are kept, branches, files, faults, two tabs, plots. And
axe-core's rules, where test.sh has installed it by npm."""
import base64
import json
import os
import struct
import sys
import tempfile
import time
import zlib

import browser
from browser import IDLE, LAST, last, say
from halod import BUILDDIR, SRCDIR, Halod, Tap, traceback
from sounds import raw, tone
from scripted import BREAK, EMPTY, STOP, WAIT, Scripted, bucket, model, stats

AXE = os.path.join(os.environ.get("HALOD_CLIENTS", os.path.join(BUILDDIR, "clients")),
                   "node", "node_modules", "axe-core", "axe.min.js")
TALKS = "[...document.querySelectorAll('#talks .open b')].map((e) => e.textContent)"

ANSWER = r'''# First
### Third
Some *emphasis*, **strong**, ~~gone~~, `code`, a [link](https://example.org/a?b=1 "why"),
https://example.com/auto and page.py.<br>A line.

> A quote

1. one
2. two
   - inner
   - [x] done

| Name | Value | Price |
|:-----|:-----:|------:|
| a | 1 | $5 |
| b | `x` | $10 |

---

Euler: $e^{i\pi} + 1 = 0$, and \(\frac{a}{b}\). It costs $5 and $10.

$$
\int_0^\infty e^{-x^2}\,dx
$$

\[ \begin{pmatrix} a & b \end{pmatrix} \]

\begin{align*}
x &= 1
\end{align*}

```python
def f(x: int) -> str:
    return f"{x + 1}"  # comment
```

![a picture](https://example.org/p.png)
'''
HOSTILE = r'''<img src=x onerror="document.title='evil'"><script>document.title='evil'</script>

[one](javascript:document.title='evil') [two](JaVaScRiPt:alert(1)) [three](data:text/html,<script>alert(1)</script>)
[four](vbscript:x) <a href="javascript:alert(1)">five</a> ![six](javascript:alert(1)) ![seven](data:image/svg+xml,<svg onload=alert(1)>)

<iframe srcdoc="<script>parent.document.title='evil'</script>"></iframe>

| <svg onload=alert(1)> | <style>*{display:none}</style> |
|---|---|
| <b onmouseover=alert(1)>x</b> | [y](//evil.example/x) |

$\href{javascript:alert(1)}{x}$ $\htmlStyle{color:red}{y}$ $\includegraphics{https://evil.example/x.png}$

```html
<script>document.title='evil'</script>
```

```x"><script>alert(1)</script>
code
```

[ref]: javascript:alert(1)
[ref]
'''


def png(side):
    """A red square, as a file."""
    def piece(kind, data):
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))
    rows = (b"\0" + b"\xff\0\0" * side) * side
    return (b"\x89PNG\r\n\x1a\n" + piece(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
            + piece(b"IDAT", zlib.compress(rows)) + piece(b"IEND", b""))


def start(b, s, host="127.0.0.1"):
    s.begin()
    browser.fresh(b, "http://%s:%d" % (host, s.port))
    b.wait("document.querySelector('#state').textContent === 'ready' && models.length")


def do(b, name, where=LAST):
    """Presses the button of this name."""
    b.eval("[...%s.querySelectorAll('button')].find((e) => e.textContent === %s || "
           "e.ariaLabel === %s).click()" % (where, json.dumps(name), json.dumps(name)))


def buttons(b, where=LAST):
    return b.eval("[...%s.querySelectorAll('.actions button')].map((e) => e.textContent)" % where)


# --- texts -----------------------------------------------------------------------------------


def counts(b):
    return b.eval("""Object.fromEntries(['h3', 'h4', 'em', 'strong', 's', 'a', 'blockquote', 'ol',
        'ul', 'li', 'table', 'th', 'td', 'hr', '.katex', '.formula', 'figure.code', '.hljs-keyword',
        'p code', 'br', 'img'].map((q) => [q, %s.querySelectorAll('.text ' + q).length]))""" % LAST)


WANT = {"h3": 1, "h4": 1, "em": 1, "strong": 1, "s": 1, "a": 3, "blockquote": 1, "ol": 1, "ul": 1,
        "li": 4, "table": 1, "th": 3, "td": 6, "hr": 1, ".katex": 5, ".formula": 3,
        "figure.code": 1, ".hljs-keyword": 2, "p code": 1, "br": 2, "img": 0}


def test_markdown(t, b, s):
    start(b, s)
    s.say("whole", [ANSWER])
    s.say("pieces", [ANSWER[i:i + 3] for i in range(0, len(ANSWER), 3)])
    say(b, "whole")
    t.equal(counts(b), WANT, "all of Markdown is drawn")
    t.ok("$5 and $10" in last(b, ".text"), "money is no formula")
    t.equal(last(b, "td:last-child", "className"), "right", "a column's side")
    t.ok(last(b, ".hljs-comment") == "# comment" and
         b.eval("getComputedStyle(%s.querySelector('.hljs-keyword')).color !== "
                "getComputedStyle(%s.querySelector('pre')).color" % (LAST, LAST)),
         "code has colours")
    sizes = b.eval("['.head1', '.head3', 'p'].map((q) => parseFloat(getComputedStyle("
                   "%s.querySelector(q)).fontSize))" % LAST)
    t.ok(sizes[0] > sizes[1] > sizes[2], "headings by size", sizes)
    t.ok(b.eval("document.fonts.check('16px KaTeX_Math')"), "formulas have their own letters")
    t.equal(b.eval("[...new Set([...%s.querySelectorAll('.katex *')].map((e) => "
                   "getComputedStyle(e).fontWeight))]" % LAST), ["400"], "which no style of the page makes bold")
    t.equal(b.eval("(e => [e.href, e.target, e.rel, e.title])(%s.querySelector('.text a'))" % LAST),
            ["https://example.org/a?b=1", "_blank", "noopener noreferrer", "why"], "a link")
    whole = last(b, ".text", "innerHTML")
    say(b, "pieces")
    t.equal(last(b, ".text", "innerHTML"), whole, "in 3-letter pieces it becomes the same")


# Of KaTeX's functions those whose elements have styles of their own, in what is seen or in the
# MathML beside it.
STYLED = [r"\fcolorbox{red}{yellow}{x}", r"\colorbox{aqua}{x}", r"\fbox{x}", r"\boxed{x}", r"\pmb{x}",
          r"\boldsymbol{x}", r"\textcolor{#0f0}{x}", r"\color{blue} x", r"\cancel{x}", r"\xcancel{x}",
          r"\sout{x}", r"\phase{x}", r"a_{\angl n}", r"\raisebox{2pt}{x}", r"\rule{2pt}{9pt}",
          r"\vcenter{x}", r"\overbrace{x}^n", r"\sqrt[3]{x}", r"\widehat{x}", r"\hphantom{x}y",
          r"\smash{x}", r"\mathllap{x}y", r"\Huge x", r"\begin{array}{|c:c|}\hline x&y\\\end{array}",
          r"\begin{CD}A @>x>> B\end{CD}", r"\tag{1} x", r"\bra{x}", r"\mathring{x}", r"\dddot{x}",
          r"\begin{pmatrix}x\\[9pt]y\end{pmatrix}", r"\underline{\text{ab}}", r"x\kern3em y",
          r"\href{https://e.example}{x}", r"\htmlStyle{color: red}{x}", r"\includegraphics{a.png}"]


def test_formulas(t, b, s):
    """Nothing that a formula draws is against the page's policy."""
    start(b, s)
    b.problems.clear()
    s.say("styled", ["".join("\\[%s\\]\n\n" % f for f in STYLED)])
    say(b, "styled")
    n = b.eval("%s.querySelectorAll('.text .katex').length" % LAST)
    t.equal(n, len(STYLED), "each is a formula")
    t.equal(b.eval("%s.querySelectorAll('.text .katex-error').length" % LAST), 0, "and none a fault")
    t.equal(b.problems, [], "the browser refused nothing")
    t.equal(b.eval("(e => [e.borderTopStyle, e.backgroundColor])(getComputedStyle("
                   "%s.querySelector('.fcolorbox')))" % LAST), ["solid", "rgb(255, 255, 0)"],
            "a frame and its ground are seen")
    t.equal(b.eval("[...%s.querySelectorAll('.katex-html *')].filter((e) => e.style.textShadow)"
                   ".length" % LAST), 1, "and a bold letter that is two")


def test_growing(t, b, s):
    """A block that is whole stays as it is while the next ones come."""
    start(b, s)
    s.say("grow", ["# One\n\n| a |\n|---|\n| b |\n\n", WAIT, "text [later][x] and `co", WAIT,
                   "de`\n\n```js\nlet a = 1;", WAIT, "\n```\n\n[x]: https://example.org/late\n"])
    say(b, "grow", wait=False)
    b.wait("%s.querySelector('td')" % LAST)
    b.eval("window.table = %s.querySelector('table')" % LAST)
    s.go()
    b.wait("%s.textContent.includes('later')" % LAST)
    t.ok(b.eval("table.isConnected"), "a table stays")
    s.go()
    b.wait("%s.querySelector('figure .hljs-keyword')" % LAST)
    t.ok(b.eval("table.isConnected"), "and stays; code has colours before its end")
    b.eval("window.pre = %s.querySelector('pre')" % LAST)
    s.go()
    b.wait(IDLE + " && %s.querySelector('a')" % LAST)
    t.equal(last(b, "a", "href"), "https://example.org/late", "an address behind its link is found")
    long = "".join("Line %d with **bold** and `code`.\n\n" % i for i in range(3000))
    s.say("long", [long[i:i + 40] for i in range(0, len(long), 40)])
    b.eval("""md.parse = ((real) => (text, env) => {
        (window.read ??= []).push(text.length);
        return real.call(md, text, env);
    })(md.parse)""")
    say(b, "long")
    t.equal(b.eval("%s.querySelectorAll('.text > p').length" % LAST), 3000, "a long answer is all there")
    read = b.eval("read")
    t.ok(sum(read) < len(long) + 100 * len(read), "each time its last line is read again, and no more", read[-9:])


def test_hostile(t, b, s):
    start(b, s)
    b.problems.clear()
    b.urls.clear()
    s.say("evil", [HOSTILE])
    say(b, "evil")
    t.ok("evil" not in b.eval("document.title").replace("evil – halod", ""), "nothing ran")
    t.equal(b.eval("%s.querySelectorAll('script, img, iframe, svg:not(.katex svg), style, "
                   "object, [onerror], [onload], [onmouseover]').length" % LAST), 0,
            "no element of it came to life")
    t.equal(b.eval("[...%s.querySelectorAll('a')].map((e) => e.protocol)" % LAST), [],
            "and no such link")
    t.ok("<script>document.title='evil'</script>" in last(b, ".text") and
         "<iframe" in last(b, ".text"), "markup is shown as text")
    t.equal([u for u in b.urls if "evil.example" in u], [], "nobody was asked")
    t.equal(b.problems, [], "and nothing tried")
    for bad in ("```", "$$", "| a |\n|-", "[x](", "\\begin{align}\nx", "$" * 5000, "> " * 300 + "x",
                "[" * 3000, "*a" * 3000, "\\(" * 2000, "```js\n" + "(" * 20000):
        s.say("broken", [bad, "", "\n"])
        say(b, "broken")
        t.ok(b.eval(IDLE) and not last(b, ".fault"), "half of it: %r" % bad[:12], last(b, ".fault"))
    t.equal(b.problems, [], "none of it is a fault")


# --- conversations ---------------------------------------------------------------------------


def test_kept(t, b, s):
    start(b, s)
    say(b, "First question")
    say(b, "More of it")
    b.click("#new")
    say(b, "Second talk about walrus")
    t.equal(b.eval(TALKS), ["Second talk about walrus", "First question"], "a list, the newest first")
    b.reload()
    b.wait("document.querySelectorAll('#talks .open').length === 2")
    b.wait("document.querySelector('.said')?.textContent === 'Second talk about walrus'")
    t.ok(True, "a reload shows the one that was open")
    b.click("#talks li:nth-child(2) .open")
    b.wait("document.querySelectorAll('.said').length === 2")
    t.equal(last(b, ".text"), "You said: More of it", "another one is opened")
    say(b, "And on")
    t.equal([m["content"] for m in s.asked[-1]["messages"] if m["role"] == "user"],
            ["First question", "More of it", "And on"], "and goes on")
    do(b, "Rename", "document.querySelector('#talks')")
    b.fill("#talks input", "My name")
    b.press("Enter")
    b.wait(TALKS + "[0] === 'My name'")
    b.press("k", ctrl=True)
    t.equal(b.eval("document.activeElement.id"), "search", "Ctrl and K search")
    b.type("WALRUS said")
    b.wait(TALKS + ".length === 1")
    t.equal((b.eval(TALKS), "walrus" in b.text("#talks small")),
            (["Second talk about walrus"], True), "what was said is found")
    b.fill("#search", "nothing of this")
    b.wait("document.querySelector('#talks').textContent === 'Nothing found.'")
    b.fill("#search", "")
    b.wait(TALKS + ".length === 2")
    do(b, "Delete", "document.querySelector('#talks')")
    b.wait(TALKS + ".length === 1")
    t.equal(b.eval("document.querySelectorAll('.message').length"), 0, "Delete takes it away")
    do(b, "Undo", "document.querySelector('#notice')")
    b.wait("document.querySelectorAll('.said').length === 3 && %s.length === 2" % TALKS)
    b.reload()
    b.wait(TALKS + "[0] === 'My name'")
    t.ok(True, "and Undo brings it back, with its name")
    b.click("#delete-all")
    b.wait("!document.querySelector('#talks .open')")
    do(b, "Undo", "document.querySelector('#notice')")
    b.wait(TALKS + ".length === 2")
    t.ok(True, "all of them, too")


def downloaded(path):
    """The text of a JSON file that the browser is about to write."""
    deadline = time.monotonic() + browser.PATIENCE
    while True:
        try:
            with open(path, encoding="utf-8") as f:
                text = f.read()
            json.loads(text)
            return text
        except (OSError, ValueError):
            assert time.monotonic() < deadline, path
            time.sleep(0.01)


def test_export(t, b, s):
    start(b, s)
    say(b, "To be kept")
    say(b, "Really")
    b.click("#new")
    say(b, "Other")
    with tempfile.TemporaryDirectory() as folder:
        b.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
        b.click("#export")
        path = os.path.join(folder, "halod-conversations.json")
        text = downloaded(path)
        t.equal([x["title"] for x in json.loads(text)["talks"]], ["Other", "To be kept"], "a file of all")
        browser.fresh(b, "http://127.0.0.1:%d" % s.port)
        b.choose_file("#import-file", path)
        b.wait(TALKS + ".length === 2")
        b.click("#talks li:nth-child(2) .open")
        b.wait("document.querySelectorAll('.said').length === 2")
        t.ok(True, "which brings them back")
        say(b, "goes on")
        b.choose_file("#import-file", path)
        b.wait("document.querySelector('#notice').textContent.includes('Imported: 2')")
        t.equal((b.eval(TALKS + ".length"), b.eval("document.querySelectorAll('.said').length")),
                (2, 3), "twice is once, and loses nothing that is newer")
        for bad, word in (("{", "no JSON"), ("{}", "not exported"), ('{"talks":[{"id":1}]}', "lacks"),
                          ('{"talks":[{"id":"a","title":"t","nodes":[{"role":"x"}]}]}', "lacks")):
            with open(path, "w") as f:
                f.write(bad)
            b.eval("$('notice').replaceChildren()")
            b.choose_file("#import-file", path)
            b.wait("document.querySelector('#notice').textContent.includes(%s)" % json.dumps(word))
        t.ok(True, "a wrong file is told")
        evil = json.loads(text)
        node = next(n for n in evil["talks"][0]["nodes"] if n["role"] == "user")
        node["files"] = [{"name": "x", "url": "javascript:alert(1)"}, {"name": "y", "url": "http://evil.example/"},
                         {"name": "z", "sound": "http://evil.example/"},
                         {"name": "f", "film": "http://evil.example/"}]
        evil["talks"][0]["id"] = "evil"
        with open(path, "w") as f:
            json.dump(evil, f)
        b.choose_file("#import-file", path)
        b.wait(TALKS + ".length === 3")
        t.equal(b.eval("readNodes('evil').then((m) => [...m.values()].flatMap((n) => n.files ?? []))"), [],
                "a file's pictures are pictures, sounds sounds, and films films")


def test_private(t, b, s):
    start(b, s)
    say(b, "On the device")
    b.click("#new")
    b.click("#keeps")
    t.ok("stays in this tab" in b.text("#hello"), "off: the page says so", b.text("#hello"))
    say(b, "Secret of mine")
    b.reload()
    b.wait("document.querySelector('.said')?.textContent === 'Secret of mine'")
    t.ok("private" in b.text("#talks small"), "a reload keeps it in the tab")
    on_disk = """(async () => { const all = []; const t = store.db.transaction(["talks", "nodes"]);
        for (const name of ["talks", "nodes"]) all.push(...await asked(t.objectStore(name).getAll()));
        return JSON.stringify(all); })()"""
    t.ok("Secret" not in b.eval(on_disk) and "On the device" in b.eval(on_disk), "and nothing on the device")
    first = b.session
    second = b.tab()
    b.open(s.url)
    t.equal(b.eval(TALKS), ["On the device"], "another tab does not see it")
    b.session = first
    b.close_tab(second)
    b.click("#keeps")
    b.wait("!document.querySelector('#talks small').textContent.includes('private')")
    t.ok("Secret" in b.eval(on_disk), "on again: it is kept")
    b.click("#keeps")
    b.wait("document.querySelector('#talks small').textContent.includes('private')")
    t.ok("Secret" not in b.eval(on_disk), "off again: it is taken from the device")


def test_branches(t, b, s):
    start(b, s)
    s.say("Tell me", ["One."], ["Two."], ["Three."])
    say(b, "Tell me")
    do(b, "Regenerate")
    b.wait(IDLE + " && %s.innerText.includes('Two.')" % LAST)
    t.equal((last(b, ".text"), last(b, ".branch")), ("Two.", "2 of 2"), "Regenerate answers anew")
    do(b, "The version before")
    t.equal(last(b, ".text"), "One.", "and keeps the first answer")
    say(b, "Behind one")
    user = "document.querySelector('.message.user')"
    do(b, "Edit", user)
    b.eval("document.querySelector('.edit textarea').select()")
    b.type("Tell me")
    b.press("Enter")
    b.wait(IDLE + " && %s.innerText.includes('Three.')" % LAST)
    t.equal((b.eval("document.querySelectorAll('.message').length"),
             b.eval("%s.querySelector('.branch').textContent" % user)), (2, "2 of 2"),
            "an edited question is another branch")
    b.eval("store.ready = new Promise(() => {}), 0")  # a disk that takes long: nothing is written
    do(b, "The version before", user)
    t.equal(last(b, ".text"), "You said: Behind one", "the first one has all that came behind it")
    b.reload()
    b.wait("document.querySelectorAll('.message').length === 4")
    t.equal(last(b, ".text"), "You said: Behind one", "a reload keeps all of it")
    b.eval("document.querySelector('#prompt').focus()")
    b.press("ArrowUp")
    t.equal(b.eval("document.activeElement.value"), "Behind one", "Up changes the last question")
    b.press("Escape")
    t.ok(b.eval("!document.querySelector('.edit') && document.querySelectorAll('.said').length === 2"),
         "Esc leaves it")


# --- nothing is lost -----------------------------------------------------------------------------


def test_reload(t, b, s):
    start(b, s)
    s.say("story", ["Once", " upon", WAIT, "never"])
    say(b, "story", wait=False)
    b.wait("%s?.innerText.includes('Once upon')" % LAST)
    b.reload()
    b.wait("%s?.innerText.includes('the page was closed here')" % LAST)
    s.go()
    t.equal(last(b, ".text"), "Once upon", "a reload in the middle keeps what was said")
    t.ok("Go on" in buttons(b), "and offers to go on", buttons(b))
    s.say("Once upon", [" a", " time."])
    do(b, "Go on")
    b.wait(IDLE + " && %s.innerText.includes('time')" % LAST)
    t.equal(last(b, ".text"), "Once upon a time.", "from its last word")
    asked = s.asked[-1]
    t.equal((asked["messages"][-1], asked["continue_final_message"], asked["add_generation_prompt"]),
            ({"role": "assistant", "content": "Once upon"}, True, False), "as the API has it")
    t.ok("Go on" not in buttons(b), "then it is whole", buttons(b))
    s.say("think", [{"reasoning_content": "Let me see."}, WAIT], ["Quick."])
    say(b, "think", wait=False)
    b.wait("%s.querySelector('.thought')?.checkVisibility()" % LAST)
    b.reload()
    b.wait("%s?.innerText.includes('the page was closed here')" % LAST)
    s.go()
    s.say("", ["At once."])
    do(b, "Answer now")
    b.wait(IDLE + " && %s.innerText.includes('At once.')" % LAST)
    t.equal(s.asked[-1]["messages"][-1],
            {"role": "assistant", "content": "", "reasoning_content": "Let me see."},
            "thoughts that were cut are enough to answer")
    s.answers.pop("")
    s.say("early", [WAIT, "x"])
    say(b, "early", wait=False)
    s.held()
    b.reload()
    b.wait("%s?.innerText.includes('before the answer came')" % LAST)
    s.go()
    t.ok("Try again" in buttons(b), "before the first word: try again", buttons(b))


def test_reload_in_lan(t, b, s):
    """Without a secure context no lock tells who writes: other tabs are asked."""
    start(b, s, "halo.lan")
    s.say("story", ["Once", " upon", WAIT, "never"])
    say(b, "story", wait=False)
    b.wait("%s?.innerText.includes('Once upon')" % LAST)
    first = b.session
    second = b.tab()
    b.open("http://halo.lan:%d/" % s.port)
    b.click("#talks .open")
    b.wait("document.querySelectorAll('.message').length === 2")
    t.ok(b.eval("saysSo(talk.tip)"), "the tab that writes says so")
    b.session = first
    b.close_tab(second)
    b.reload()
    b.wait("%s?.innerText.includes('the page was closed here')" % LAST)
    t.equal(last(b, ".text"), "Once upon", "and one that is closed does not")


def test_breaks(t, b, s):
    start(b, s)
    for name, end in (("cut", BREAK), ("ends", STOP)):
        s.say(name, ["Half an ", "answer", WAIT, end])
        say(b, name, wait=False)
        b.wait("%s?.querySelector('.text')?.innerText === 'Half an answer'" % LAST)
        s.go()
        b.wait(IDLE)
        t.ok("The connection broke" in last(b, ".fault") and last(b, ".text") == "Half an answer",
             "%s: what came stays" % name, last(b, ".fault"))
    t.ok({"Go on", "Regenerate", "Copy"} <= set(buttons(b)), "and can go on", buttons(b))
    say(b, "Next")
    t.equal([m["content"] for m in s.asked[-1]["messages"]],
            ["cut", "Half an answer", "ends", "Half an answer", "Next"], "it is part of what follows")
    b.reload()
    b.wait("document.querySelectorAll('article').length === 3")
    t.ok("Half an answer" in b.text("#log"), "and of what is kept")
    s.say("refuse", [400], ["Fine."])
    say(b, "refuse")
    t.equal((last(b, ".fault"), buttons(b)[0]), ("scripted refusal", "Try again"), "a refusal in its words")
    do(b, "Try again")
    b.wait(IDLE + " && %s.innerText.includes('Fine.')" % LAST)
    t.ok(last(b, ".branch") is None, "Try again leaves no branch", last(b, ".branch"))
    s.say("short", ["Cut", {"finish": "length"}])
    say(b, "short")
    t.ok("longest length" in last(b, ".meta") and "Go on" in buttons(b), "length is told, and can go on",
         last(b, ".meta"))
    b.problems.clear()


def test_progress(t, b, s):
    """While the prompt is read, the place of the answer tells how far that is."""
    start(b, s)
    s.say("long", [WAIT, *(piece for n in (0, 9000, 20000) for piece in (
        {"prompt_progress": {"total": 20000, "cache": 0, "processed": n, "time_ms": 1}}, WAIT)), "Read."])
    say(b, "long", wait=False)
    b.wait("%s?.querySelector('.meta').innerText.includes('Waiting for the server')" % LAST)
    s.held()
    t.equal(s.asked[-1]["return_progress"], True, "the page asks how far the prompt is")
    for n in ("0", "9,000", "20,000"):
        s.go()
        b.wait("%s.querySelector('.meta').innerText.includes('Reading the prompt: %s of 20,000 tokens')" % (LAST, n))
    t.ok(True, "it says so as it comes")
    s.go()
    b.wait(IDLE)
    t.ok(last(b, ".text") == "Read." and "Reading" not in last(b, ".meta"), "and no more behind it",
         last(b, ".meta"))


def test_background(t, b, s):
    """An answer goes on while its user looks at another conversation."""
    start(b, s)
    s.say("slow", ["Begin", WAIT, " end."])
    say(b, "slow", wait=False)
    b.wait("%s?.innerText.includes('Begin')" % LAST)
    b.click("#new")
    t.ok(b.eval(IDLE), "another conversation is free")
    say(b, "quick")
    s.go()
    b.wait("!runs.size")
    b.eval("[...document.querySelectorAll('#talks .open')].find((e) => e.textContent.startsWith('slow')).click()")
    b.wait("%s?.innerText.includes('Begin')" % LAST)
    t.equal(last(b, ".text"), "Begin end.", "the first one is whole")


def test_tabs(t, b, s):
    start(b, s)
    say(b, "Shared")
    first = b.session
    second = b.tab()
    b.open(s.url)
    b.wait(TALKS + ".length === 1")
    b.click("#talks .open")
    b.wait("document.querySelectorAll('.message').length === 2")
    b.session = first
    s.say("more", ["Word", WAIT, " by word"])
    say(b, "more", wait=False)
    b.wait("%s?.innerText.includes('Word')" % LAST)
    b.eval("store.channel.onmessage = null")  # too busy to answer
    b.session = second
    b.wait("document.querySelectorAll('.message').length === 4")
    t.ok(b.eval(IDLE) and not last(b, ".meta"), "the other tab sees that it is written", last(b, ".meta"))
    b.reload()
    b.wait("document.querySelectorAll('.message').length === 4")
    b.wait("navigator.locks.query().then((all) => all.pending.length === 1)")
    t.ok("closed" not in last(b, ".below"), "and does not take it for lost")
    b.session = first
    b.eval("store.channel.onmessage = hear")
    s.go()
    b.wait(IDLE)
    b.session = second
    b.wait("%s?.innerText.includes('Word by word')" % LAST)
    t.ok(True, "both tabs agree on the answer")
    do(b, "Rename", "document.querySelector('#talks')")
    b.fill("#talks input", "By two")
    b.press("Enter")
    b.session = first
    b.wait(TALKS + "[0] === 'By two'")
    say(b, "from one")
    b.session = second
    b.wait("document.querySelectorAll('.message').length === 6")
    say(b, "from two")
    b.session = first
    b.wait("document.querySelectorAll('.message').length === 8 && %s.innerText.includes('from two')" % LAST)
    t.ok(True, "each goes on behind the other")
    do(b, "Delete", "document.querySelector('#talks')")
    b.session = second
    b.wait("!document.querySelector('.message') && document.querySelector('#notice').textContent.includes('Another tab')")
    t.ok(True, "a deletion is told")
    b.session = first
    b.close_tab(second)


# --- files, models, copies ------------------------------------------------------------------------


def drop(b, name, kind, data, event="drop", target="#chat"):
    """A file that comes by mouse or clipboard, as the browser hands it to the page."""
    b.eval("""(() => { const data = new DataTransfer(), raw = atob(%s);
        data.items.add(new File([Uint8Array.from(raw, (c) => c.charCodeAt(0))], %s, {type: %s}));
        document.querySelector(%s).dispatchEvent(%s === "paste"
            ? new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true})
            : new DragEvent(%s, {dataTransfer: data, bubbles: true, cancelable: true})) })()"""
           % tuple(map(json.dumps, (base64.b64encode(data).decode(), name, kind, target, event, event))))


def test_files(t, b, s):
    s.models = [model("blind"), model("seer", sees=True)]
    start(b, s)
    drop(b, "red.png", "image/png", png(8))
    b.wait("document.querySelector('#notice').textContent.includes('sees no pictures')")
    t.ok(b.eval("!files.length"), "a model that sees none gets no picture")
    b.eval("(e => { e.value = 'seer'; e.onchange() })(document.querySelector('#models'))")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "button.png")
        with open(path, "wb") as f:
            f.write(png(8))
        b.choose_file("#file", path)
        b.wait("files.length === 1")
    drop(b, "dropped.png", "image/png", png(3000))
    b.wait("files.length === 2")
    drop(b, "pasted.png", "image/png", png(8), "paste", "#prompt")
    b.wait("files.length === 3")
    drop(b, "notes.txt", "text/plain", "Grüße ```x```".encode())
    b.wait("files.length === 4")
    drop(b, "data.bin", "", b"\xff\0\xfe")
    b.wait("document.querySelector('#notice').textContent.includes('data.bin was left out')")
    for name, kind, data, why in (("a.pdf", "application/pdf", b"%PDF-1.7\n1 0 obj", "not read PDF"),
                                  ("b", "", b"%PDF-1.4 text", "not read PDF"),
                                  ("c.mp3", "audio/mpeg", b"ID3", "hears nothing"),
                                  ("d.mp4", "video/mp4", b"x", "takes no films")):
        drop(b, name, kind, data)
        b.wait("document.querySelector('#notice').textContent.includes(%s)" % json.dumps(name + " was left out"))
        t.ok(why in b.eval("document.querySelector('#notice').textContent"), name + ": says why")
    t.equal(b.eval("[...document.querySelectorAll('.chip')].map((e) => e.textContent)"),
            ["button.png×", "dropped.png×", "pasted.png×", "notes.txt×"], "by button, drop and paste")
    do(b, "Remove pasted.png", "document.querySelector('#files')")
    say(b, "Look")
    asked = s.asked[-1]
    content = asked["messages"][-1]["content"]
    t.equal((asked["model"], [p["type"] for p in content]), ("seer", ["image_url", "image_url", "text"]),
            "pictures go as the API has them, to the model that was chosen")
    t.equal(base64.b64decode(content[0]["image_url"]["url"].split(",")[1]), png(8), "a small one as it is")
    size = b.eval("new Promise((done) => { const i = new Image(); i.onload = () => done([i.width, i.height]);"
                  "i.src = %s })" % json.dumps(content[1]["image_url"]["url"]))
    t.equal(size, [2048, 2048], "a large one is made smaller")
    t.equal(content[2]["text"], "notes.txt:\n````\nGrüße ```x```\n````\n\nLook", "a text file as text")
    b.reload()
    b.wait("document.querySelectorAll('.files img').length === 2 && document.querySelector('.file')")
    b.wait("[...document.querySelectorAll('.files img')].every((e) => e.complete && e.naturalWidth)")
    t.ok(True, "they are kept and shown")
    say(b, "And?")
    t.equal([m["role"] for m in s.asked[-1]["messages"]], ["user", "assistant", "user"], "and sent again")
    s.models = [model("scripted")]


def samples(part):
    """The samples of an input_audio part, which must be WAV as the page makes it."""
    raw = base64.b64decode(part["input_audio"]["data"])
    head = struct.unpack("<4xI4s4xIHHIIHH4xI", raw[:44])
    assert part["input_audio"]["format"] == "wav" and head == (
        len(raw) - 8, b"WAVE", 16, 1, 1, 16000, 32000, 2, 16, len(raw) - 44), head
    return struct.unpack("<%dh" % (head[-1] // 2), raw[44:])


def loudness(x):
    return (sum(v * v for v in x) / max(1, len(x))) ** 0.5


def test_films(t, b, s):
    s.models = [model("seer", sees=True, watches=True), model("hearer", sees=True, watches=True, hears=True)]
    start(b, s)
    title = "document.querySelector('#attach').title"
    t.equal(b.eval(title), "Add a file, a picture or a film", "the button")
    with open(os.path.join(SRCDIR, "tests/golden/video/vp9.webm"), "rb") as f:
        film = f.read()
    for name, n, kind, why in (("a.avi", 1, "x-msvideo", "MP4, WebM or Matroska"), ("b.mp4", 11 << 20, "mp4", "longer than 11 MiB")):
        b.eval("addFiles([new File([new Uint8Array(%d), 'x'], '%s', {type: 'video/%s'})])" % (n, name, kind))
        b.wait("document.querySelector('#notice').textContent.includes('%s')" % why)
    drop(b, "c.mkv", "video/x-matroska", b"x")
    b.wait("files.length === 1")
    drop(b, "walk.webm", "video/webm", film)
    b.wait("files.length === 2")
    do(b, "Remove c.mkv", "document.querySelector('#files')")
    say(b, "Look")
    t.equal((s.asked[-1]["messages"][-1]["content"], s.asked[-1].get("mm_processor_kwargs")),
            ([{"type": "video_url", "video_url": {"url": "data:video/webm;base64," + base64.b64encode(film).decode()}},
              {"type": "text", "text": "Look"}], None), "a film goes as the API has it")
    b.reload()
    b.wait("document.querySelector('.files video')?.duration > 1")
    b.eval("(e => { e.value = 'hearer'; e.onchange() })(document.querySelector('#models'))")
    t.equal(b.eval(title), "Add a file, a picture, a film or a sound", "it is kept, and can be played")
    say(b, "And?")
    t.equal(s.asked[-1]["mm_processor_kwargs"], {"use_audio_in_video": True}, "who hears hears it, too")
    s.models = [model("scripted")]


# What the recorder has, not what the clock says: a slow machine has less sound than seconds.
HEARD = "(recording?.recorder.requestData(), recording?.pieces.reduce((n, p) => n + p.size, 0) > 5000)"


def test_sounds(t, b, s):
    """Chromium's microphone plays MICROPHONE."""
    shown = "!document.querySelector('#record').hidden"
    s.models = [model("deaf")]
    start(b, s)
    t.ok(not b.eval(shown), "no microphone where no model hears")
    s.models = [model("deaf"), model("hearer", hears=True)]
    start(b, s)
    t.ok("hearer writes" in b.eval("document.querySelector('#record').title"), "but where another one hears")
    b.click("#prompt")
    b.type("Before")
    b.click("#record")
    b.wait(HEARD)
    b.click("#record")
    b.wait("document.querySelector('#prompt').value === 'Before What was said.'")
    form = s.forms.pop()
    wav = form[form.index(b"RIFF"):]
    t.ok(b'name="model"\r\n\r\nhearer\r\n' in form and not s.forms and
         samples({"input_audio": {"format": "wav", "data": base64.b64encode(
             wav[:wav.rindex(b"\r\n--", 0, -1)])}}), "it writes down what is said", form[:300])
    b.press("Enter")
    b.wait(IDLE)
    t.equal((s.asked[-1]["model"], s.asked[-1]["messages"][-1]["content"]),
            ("deaf", "Before What was said."), "for the one that answers")
    b.click("#new")
    b.eval("(e => { e.value = 'hearer'; e.onchange() })(document.querySelector('#models'))")
    t.ok(b.eval(shown) and "sound" in b.eval("document.querySelector('#attach').title"), "and where it does itself")
    b.click("#record")
    b.wait("document.querySelector('#clock').textContent >= '0:01'")
    b.wait(HEARD)
    t.equal(b.eval("document.querySelector('#record').ariaPressed"), "true", "it records")
    b.click("#record")
    b.wait("files.length === 1")
    t.ok(b.eval("!recording && document.querySelector('#clock').hidden"), "and stops")
    drop(b, "short.wav", "audio/wav", tone(0.5))
    b.wait("files.length === 2")
    drop(b, "other.opus", "audio/ogg", raw("opus.ogg"))
    b.wait("files.length === 3")
    drop(b, "broken.ogg", "audio/ogg", b"OggS")
    b.wait("document.querySelector('#notice').textContent.includes('browser cannot read it')")
    say(b, "Listen")
    content = s.asked[-1]["messages"][-1]["content"]
    t.equal([p["type"] for p in content], ["input_audio"] * 3 + ["text"], "sounds go as the API has them")
    heard = samples(content[0])
    t.ok(len(heard) > 0 and loudness(heard) > 300, "what was recorded is a sound",
         (len(heard), loudness(heard)))
    t.equal(base64.b64decode(content[1]["input_audio"]["data"]), tone(0.5), "a WAV file as it is")
    t.ok(loudness(samples(content[2])) > 30, "another format as WAV", len(samples(content[2])))
    b.click("#record")
    b.wait("recording")
    b.press("Escape")
    b.wait("!recording")
    t.ok(b.eval("!files.length && document.querySelector('.chip') === null"), "Esc drops a recording")
    b.click("#record")
    b.wait(HEARD)
    n = len(s.asked)
    b.click("#send")
    b.wait("!recording && " + IDLE + " && document.querySelectorAll('article.message').length === 2")
    t.ok(len(s.asked) == n + 1 and samples(s.asked[-1]["messages"][-1]["content"][0]), "Send sends it")
    b.reload()
    b.wait("document.querySelectorAll('.files audio').length === 4")
    b.wait("[...document.querySelectorAll('.files audio')].every((e) => e.duration > 0.04)")
    t.ok(True, "sounds are kept, and can be played")
    start(b, s, "halo.lan")
    b.eval("(e => { e.value = 'hearer'; e.onchange() })(document.querySelector('#models'))")
    t.equal(b.eval("[document.querySelector('#record').disabled, document.querySelector('#record').title]"),
            [True, "The browser gives the microphone only to pages over https or from localhost"],
            "without a secure context it says why not")
    s.models = [model("scripted")]


def test_recordings(t, b, s):
    """What goes wrong while somebody speaks, or after it."""
    s.models = [model("deaf"), model("hearer", hears=True)]
    start(b, s)
    notice = "document.querySelector('#notice').textContent"
    b.eval("navigator.mediaDevices.getUserMedia = () => new Promise((_, no) => { refuse = no })")
    b.click("#record")
    b.eval("showModels()")
    t.ok(b.eval("document.querySelector('#record').disabled"), "none begins twice while the browser asks")
    b.eval("refuse(new DOMException('', 'NotAllowedError'))")
    b.wait("!document.querySelector('#record').disabled && %s.includes('not allowed')" % notice)
    b.eval("delete navigator.mediaDevices.getUserMedia")

    for broken in ("function () { throw new Error('no recorder') }",
                   "function () { return { start() { throw new Error('no recorder') } } }"):
        b.eval("""(real => {
            navigator.mediaDevices.getUserMedia = async (what) => {
                delete navigator.mediaDevices.getUserMedia;
                return heard = await navigator.mediaDevices.getUserMedia(what);
            };
            window.MediaRecorder = %s;
            restore = () => { window.MediaRecorder = real };
        })(window.MediaRecorder); document.querySelector('#notice').textContent = ''""" % broken)
        b.click("#record")
        b.wait("%s.includes('no recorder')" % notice)
        t.ok(b.eval("heard.getTracks().every((e) => e.readyState === 'ended') && !recording && "
                    "!document.querySelector('#record').disabled"),
             "a recorder that fails leaves no microphone on")
        b.eval("restore()")

    s.transcripts = [503, WAIT]
    b.click("#record")
    b.wait(HEARD)
    b.click("#record")
    b.wait("unwritten.length === 1")
    t.ok("not written down: scripted refusal" in b.eval(notice), "a transcription that fails says so")
    do(b, "Write down", "document.querySelector('#files')")
    b.wait("isWriting")
    t.ok(b.eval("!unwritten.length"), "and is tried again")
    s.go()
    b.wait("!isWriting && document.querySelector('#prompt').value === 'What was said.'")
    t.ok(len(s.forms) == 2 and b.eval("document.querySelector('#files').hidden"), "with the same sound", len(s.forms))

    say(b, "One")
    s.transcripts = [WAIT]
    b.click("#record")
    b.wait(HEARD)
    n = len(s.asked)
    b.click("#send")
    b.wait("isWriting")
    b.click("#new")
    s.go()
    b.wait("!isWriting && %s.includes('began in another')" % notice)
    t.equal((b.eval("document.querySelector('#prompt').value"), len(s.asked)), ("What was said.", n),
            "what began in another conversation is not sent in this one")
    s.forms.clear()

    wav = "(async (n, rate) => { const raw = await wavOf(new Float32Array(n)).arrayBuffer(); const v = new DataView(raw); " \
          "v.setUint32(24, rate, true); v.setUint32(28, 2 * rate, true); return new File([raw], 'a', {type: 'audio/wav'}) })"
    size = "readSound(%s).then((url) => url.length * 3 / 4 / 2 ** 20, (e) => e.message)"
    t.ok(4.9 < b.eval(size % "new File([new Uint8Array(5 << 20)], 'a', {type: 'audio/mpeg'})") < 5.1, "an MP3 file as it is")
    t.ok(3.9 < b.eval("%s(6 << 20, 48000).then((f) => %s)" % (wav, size % "f")) < 4.1, "too large a WAV file becomes smaller")
    t.ok("cut it" in b.eval("%s(6 << 20, 16000).then((f) => %s)" % (wav, size % "f")), "or is refused")
    b.eval("files = ['sound', 'film'].map((k) => ({name: k, [k]: 'data:audio/wav;base64,' + 'A'.repeat(8 << 20)})); showFiles()")
    b.click("#send")
    t.ok(b.eval("files.length === 2 && %s.includes('15 MiB')" % notice) and len(s.asked) == n, "more than a request takes stays here")
    do(b, "Remove sound", "document.querySelector('#files')")
    b.click("#send")
    b.wait(IDLE)
    t.equal(len(s.asked), n + 1, "less goes")
    b.problems.clear()
    s.models = [model("scripted")]


def test_copy(t, b, s):
    """Over plain http in a LAN there is no navigator.clipboard."""
    b.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    s.say("code", ["Text **bold**\n\n```sh\necho 1 && echo 2\n```\n"])
    for host in ("127.0.0.1", "halo.lan"):
        start(b, s, host)
        t.equal(b.eval("isSecureContext && Boolean(navigator.clipboard)"), host != "halo.lan", "at " + host)
        say(b, "code")
        for where, want in (("figure", "echo 1 && echo 2"), (".actions", "Text **bold**\n\n```sh\necho 1 && echo 2\n```\n")):
            is_copied = b.watch("%s.querySelector('%s button').textContent === 'Copied'" % (LAST, where))
            b.click("article:last-of-type %s button" % where)
            b.wait(is_copied)
            b.eval("document.querySelector('#prompt').focus()")
            b.call("Input.dispatchKeyEvent", type="keyDown", key="v", commands=["paste"])
            got = b.eval("document.querySelector('#prompt').value")
            b.fill("#prompt", "")
            t.equal(got, want, "%s: %s is copied" % (host, where))
    t.equal(b.problems, [], "nothing is barred")


# --- status ---------------------------------------------------------------------------------------


def test_plots(t, b, s):
    def q(v):
        return {"n": 3, "median": v, "p95": 3 * v}
    s.stats = stats([bucket(ttft_ms=q(18000), tpot_ms=q(30), running=3, tokens_per_second=90,
                            kv_usage=0.5, memory_used=30 << 30),
                     bucket(ttft_ms=q(20), tpot_ms=q(31), running=1, waiting=2, failed=2,
                            tokens_per_second=33.3, kv_usage=0.25, memory_used=40 << 30)],
                    [{"id": "a", "path": "/v1/chat/completions", "ended": 1e9, "status": 500,
                      "finish": "error", "stream": True, "choices": 1, "queue_ms": 1, "prefill_ms": 2,
                      "decode_ms": 3, "ttft_ms": 3, "tpot_ms": 1, "prompt_tokens": 4, "cached_tokens": 0,
                      "disk_tokens": 0, "output_tokens": 3, "reasoning_tokens": 0, "preempted": 0,
                      "draft_tokens": 0, "accepted_tokens": 0, "cache_saved_ms": 0,
                      "speculation_saved_ms": 0}], ttft_ms=EMPTY)
    start(b, s)
    labels = b.eval("Object.fromEntries([...plots.keys()].map((id) => [id, "
                    "[...document.querySelectorAll('#' + id + ' text')].map((e) => e.textContent)]))")
    t.equal(labels["ttft"][:-3], ["10 ms", "1 s", "100 s"], "times have a logarithmic axis")
    t.equal(labels["speed"][:-3], ["0", "50", "100"], "speed has one from 0")
    t.equal(labels["memory"][:-3], ["0", "32 GiB", "64 GiB"], "memory one up to all of it")
    t.equal((labels["load"][:-3], labels["load"][-3:]), (["0", "5"], ["10 min ago", "5 min ago", "now"]),
            "requests, and the time")
    where = b.eval("[...document.querySelectorAll('#ttft .median')].map((e) => +e.getAttribute('y1'))")
    t.ok(10 < where[1] - where[0] < 70, "18 s do not hide 20 ms", where)
    red = b.eval("getComputedStyle(document.querySelector('#load .failed')).fill")
    t.equal(red, b.eval("getComputedStyle(document.querySelector('#requests .bad')).color"),
            "what failed is red, in the plot and in the list")
    for id, want in (("ttft", "median 20 ms, p95 60 ms, 3 requests"), ("speed", "33 tokens/s"),
                     ("load", "1 running, 2 waiting, 2 failed"), ("kv-plot", "25 %"),
                     ("memory", "40.0 GiB in use")):
        r = b.eval("(e => { e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
                   "return [r.right - 6, r.top + 40] })(document.querySelector('#%s'))" % id)
        b.move(*r)
        text = "kv" if id == "kv-plot" else id
        b.wait("document.querySelector('#%s-text').textContent !== plots.get('%s').spec.text" % (id, id))
        t.equal(b.text("#%s-text" % id), "now: " + want, "the pointer asks " + text)
        b.move(600, 400)
        b.wait("document.querySelector('#%s-text').textContent === plots.get('%s').spec.text" % (id, id))
    b.eval("document.querySelector('#ttft').focus()")
    b.press("ArrowLeft")
    b.press("ArrowLeft")
    t.ok(b.text("#ttft-text").startswith("10 s ago: median 18.0 s"), "so do the arrow keys", b.text("#ttft-text"))
    for width, phone in ((1280, False), (390, True)):
        b.size(width, 800, is_phone=phone)
        b.eval("see('status')")
        wrapped = b.eval("[...document.querySelectorAll('.plot figcaption')].filter((e) => "
                         "e.getBoundingClientRect().height > 30).map((e) => e.textContent)")
        t.equal(wrapped, [], "no caption wraps at %d" % width)
        outside = b.eval("[...document.querySelectorAll('.plot text')].filter((e) => { const r = e.getBoundingClientRect(),"
                         "o = e.parentElement.getBoundingClientRect(); return r.left < o.left - 1 || r.right > o.right + 1 })"
                         ".map((e) => e.textContent)")
        t.equal(outside, [], "no value stands outside at %d" % width)
    b.size(1280, 800)
    b.eval("see('chat')")
    s.stats = stats()


# --- axe ---------------------------------------------------------------------------------------------


def axe(b):
    return b.eval("""axe.run(document, {resultTypes: ['violations', 'incomplete']}).then((r) =>
        r.violations.map((v) => [v.id, v.impact, v.nodes.map((n) => n.html.slice(0, 120))]))""")


def test_axe(t, b, s):
    if not os.path.exists(AXE):
        t.skip("no axe-core at %s: test.sh installs it by npm" % AXE)
        return
    with open(AXE, encoding="utf-8") as f:
        source = f.read()
    s.models = [model("one", hears=True), model("two", sees=True)]
    row = {"path": "/v1/chat/completions", "ended": 1e9, "stream": True, "choices": 1, "queue_ms": 1, "prefill_ms": 2,
           "decode_ms": 3, "ttft_ms": 3, "tpot_ms": 1, "prompt_tokens": 4, "cached_tokens": 0,
           "disk_tokens": 0, "output_tokens": 3, "reasoning_tokens": 0, "preempted": 0, "draft_tokens": 0,
           "accepted_tokens": 0, "cache_saved_ms": 0, "speculation_saved_ms": 0}
    s.stats = stats([bucket(ttft_ms={"n": 1, "median": 5, "p95": 9}, running=1, failed=1)],
                    [dict(row, id="a", status=500, finish="error"), dict(row, id="b", status=200, finish="stop")])
    s.say("everything", [{"reasoning_content": "Hm."}, ANSWER])
    s.say("tool", [{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}],
                    "finish": "tool_calls"}])
    s.say("bad", [400])
    for width, phone in ((1280, False), (390, True)):
        for scheme in ("light", "dark"):
            b.size(width, 800, is_phone=phone)
            b.scheme(scheme)
            start(b, s)
            b.eval("document.querySelector('#prompt').focus()")
            drop(b, "notes.txt", "text/plain", b"text")
            b.wait("files.length === 1")
            say(b, "everything")
            do(b, "Regenerate")
            b.wait(IDLE)
            say(b, "bad")
            say(b, "tool")
            b.eval("document.querySelector('.thought').open = true; document.querySelector('#requests details').open = true")
            drop(b, "more.txt", "text/plain", b"text")
            b.wait("files.length === 1")
            # Not as a script of the page, whose policy would bar it.
            b.eval(source + ";0")
            for view in ("chat", "talks", "status") if phone else ("chat",):
                b.eval("see('%s')" % view)
                found = axe(b)
                t.equal(found, [], "axe: %s at %d, %s" % (view, width, scheme))
            b.eval("see('chat')")
            for opener, dialog in (("#open-settings", "settings"), ("#open-key", "key")):
                b.click(opener)
                t.equal(axe(b), [], "axe: %s at %d, %s" % (dialog, width, scheme))
                b.press("Escape")
    b.size(1280, 800)
    b.scheme("light")
    b.problems.clear()


if not browser.find():
    print("1..0 # SKIP there is no chromium; test.sh installs it")
    sys.exit(0)
t = Tap()
d = Halod()
s = Scripted(d)
microphone = tempfile.NamedTemporaryFile(suffix=".wav")
microphone.write(tone(3, rate=48000))
microphone.flush()
b = browser.Browser(more=("--no-proxy-server", "--host-resolver-rules=MAP halo.lan 127.0.0.1",
                          "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
                          "--use-file-for-fake-audio-capture=" + microphone.name))
only = sys.argv[1:]
try:
    b.scheme("light")
    for name, test in list(globals().items()):
        if name.startswith("test_") and (not only or name in only):
            print("# ---", name)
            try:
                test(t, b, s)
            except Exception:
                t.ok(False, name, traceback.format_exc())
    t.equal(b.problems, [], "the console has no error")
    hosts = {u.split("/")[2] for u in b.urls if not u.startswith(("data:", "blob:"))}
    t.ok(hosts <= {"%s:%d" % (h, s.port) for h in ("127.0.0.1", "halo.lan")}, "no other host was asked", hosts)
finally:
    b.close()
    s.close()
t.equal(d.stop(), 0, "halod ends well")
t.done()
