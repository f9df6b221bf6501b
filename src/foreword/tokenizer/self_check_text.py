"""The text that a tokenizer tries its cuts on when it is loaded.

Rules of this file: no logic. What people send most: sentences, a program, a table, a tool's JSON,
and a little of other scripts. It also warms what a first request would find cold, so common words
are worth having, and a longer text would cost more at load than it saves.
"""

SELF_CHECK_TEXT = '''\
You are a helpful assistant. Answer the question of the user as well as you can, and say so when you
do not know. If a tool can give a better answer than your memory, call the tool first, wait for its
result, and only then write. Keep it short: a few sentences are often enough, unless somebody asks
for more. Never make up a source, a number or a name.

The following is what we have found so far. There are three files in the directory, and two of them
have been changed since the last release; the other one is new. It isn't clear why the test failed
on the second machine, because the logs don't show any error before the process was stopped. We'll
have to run it again with the same version, under the same conditions, and compare both results.
Could you please look at the function below, explain what it does, and tell me whether it's safe to
use when more than one thread is running? I think that there may be a problem with the way in which
the value is set, but I'm not sure. They've told us that this is how it should work: each request is
read, checked and put into a queue; from there it is taken by the first worker that is free.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, either express or implied. You may
use, copy, modify and distribute it under the terms of this License, provided that the above notice
appears in all copies. See the file LICENSE for details. Copyright (c) 2001-2026.

```python
"""Read lines from a file and count the words in them."""

import os
import sys
from collections import defaultdict


class WordCounter(object):
    """Counts words. Not safe for use in several threads at once."""

    def __init__(self, path=None, *, encoding="utf-8", max_size=1024):
        self.path = path
        self._counts = defaultdict(int)
        if max_size <= 0:
            raise ValueError("max_size must be positive, not %r" % (max_size,))

    def add(self, line):
        # Empty lines are no error: they have no words.
        for word in line.strip().lower().split():
            self._counts[word] += 1
        return self

    def items(self):
        return sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))


def main(argv=None):
    args = sys.argv[1:] if argv is None else list(argv)
    if not args or args[0] in ("-h", "--help"):
        print("usage: count.py [options] file ...", file=sys.stderr)
        return 2
    counter = WordCounter()
    for name in args:
        if not os.path.exists(name):
            print(f"{name}: no such file", file=sys.stderr)
            continue
        with open(name, "r", encoding="utf-8", errors="replace") as file:
            try:
                for line in file:
                    counter.add(line)
            except OSError as e:
                return 1
            finally:
                pass
    while True:
        result = [x for x in counter.items() if x[1] > 1 and not x[0].isdigit()]
        assert isinstance(result, list), type(result)
        break
    print("\\n".join(f"{count:>8} {word}" for word, count in result[:10]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
```

| name | size (bytes) | time (ms) | status |
|------|-------------:|----------:|--------|
| a.txt | 1,024 | 0.35 | ok |
| b.txt | 65,536 | 12.80 | failed |

{"name": "get_weather", "arguments": {"city": "Paris", "unit": "celsius", "days": 3, "raw": false}}
{"role": "tool", "content": "{\\"temperature\\": 21.5, \\"at\\": \\"2026-01-31T12:00:00Z\\"}"}

1. First, open https://example.com/docs/index.html?page=2&lang=en#start in a browser.
2. Then type `git commit -m "Fix the build"` and `npm install --save-dev`; don't use $HOME/.cache.
3. const total = items.map((item) => item.price * 1.19).reduce((a, b) => a + b, 0); // in euros

Größe, café, naïve, señor, Łódź; Привет, как дела? 你好，今天天气怎么样？ こんにちは。 안녕하세요!
مرحبا שלום नमस्ते 👍🏽 ✓ → “quotes” – dashes…
'''
