#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of the page that README.md shows, from a real halod and Chromium.

    $ HALOD_SRCDIR=. HALOD_BUILDDIR=build tests/http/pictures.py docs

Writes docs/page.png (light) and docs/page-phone.png (dark). Needs chromium and pngquant.
"""
import json
import os
import subprocess
import sys
import threading

from browser import Browser
from halod import USUAL, Halod

MAX_BYTES = 120_000
DONE = ("document.querySelector('#send').textContent === 'Send' && "
        "!document.querySelector('article:last-of-type .meta:empty')")
ASKED = ("What is 2+2?", "Name the capital of France.")
# The model must write just this: a small one would not.
DRAWN = r"""The sum of the first $n$ squares:

$$\sum_{k=1}^{n} k^2 = \frac{n(n+1)(2n+1)}{6}$$

| n | sum |
|--:|----:|
| 3 | 14 |
| 10 | 385 |

```python
def squares(n: int) -> int:
    return sum(k * k for k in range(n + 1))  # slow, but *sure*
```
"""


def say(b, text):
    n = b.eval("document.querySelectorAll('article').length")
    b.click("#prompt")
    b.type(text)
    b.press("Enter")
    b.wait("document.querySelectorAll('article').length > %d && %s" % (n, DONE))


def work(d, seconds):
    """Some minutes in small: clients that come and go, more at a time than may run."""
    stop = threading.Event()

    def client(i):
        k = 0
        while not stop.wait((i * 0.37 + k * 0.11) % 1.3):
            k += 1
            d.chat("Tell me a story about number %d." % (k % 5 * (i + 1)),
                   max_tokens=80 + 60 * (k % 4), ignore_eos=True)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(5)]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()


def picture(b, folder, name):
    path = os.path.join(folder, name)
    b.picture(path)
    subprocess.run(["pngquant", "--force", "--strip", "--output", path, "64", path],
                   check=True)
    size = os.path.getsize(path)
    print(path, size)
    assert size <= MAX_BYTES, "%s has %d bytes" % (path, size)


def main(folder):
    d, b = Halod(max_seqs=4, **USUAL), Browser(1280, 900)
    try:
        b.scheme("light")
        b.open("http://127.0.0.1:%d/" % d.port)
        work(d, 240)
        for text in ASKED:
            say(b, text)
        b.click("#new")
        b.eval("kept.set('settings', %s)" % json.dumps(
            {"fields": {"guided_choice": [DRAWN], "enable_thinking": False}}))
        say(b, "Sum of squares, with a table and code?")
        b.wait("document.querySelector('#requests li').dataset.id.startsWith('page-') && "
               "document.querySelector('#state').textContent === 'ready'")
        b.eval("document.activeElement.blur(); document.querySelector('#log').scrollTop = 1e9")
        picture(b, folder, "page.png")
        b.scheme("dark")
        b.size(390, 700, is_phone=True)
        b.eval("document.querySelector('#log').scrollTop = 1e9")
        picture(b, folder, "page-phone.png")
    finally:
        b.close()
        d.stop()


main(sys.argv[1])
