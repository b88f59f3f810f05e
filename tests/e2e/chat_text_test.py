"""Tests that the chat page shows a model's text as Markdown, code and formulas, and that nothing in the text runs or sends a request."""
import re
import time
import unittest

import verdict
from browser import need_browser

need_browser()
import accessibility  # noqa: E402  needs a package of the browser tests' environment
from chat_page import ScriptedCase  # noqa: E402

TEXT = """# Ships

A **ship** is *large*, ~~not~~ `float`:
second line

1. hull
2. mast
   - sail

> said a sailor

| part | number |
| --- | ---: |
| mast | 3 |

- [x] done

[harbour](https://example.org/harbour "all of it") ![map](https://example.org/map.png)

```python
def sail(ship):
    return "<b>" + ship
```
"""

# Each text would run "window.hurt = 1", or send a request to another server, if any part of it were read as more than
# text.
ATTACKS = [
    '<img src=x onerror="window.hurt=1">', "<script>window.hurt=1</script>", '<svg onload="window.hurt=1"><script>window.hurt=1</script></svg>',
    '<iframe srcdoc="<script>parent.hurt=1</script>"></iframe>', '<details open ontoggle="window.hurt=1">x</details>', "<style>@import 'https://example.org/x'; body { display: none }</style>",
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.hurt=1&gt;"></table></mtext></math>',
    '<math href="javascript:window.hurt=1">CLICK</math>', '<math><annotation-xml encoding="text/html"><img src onerror=window.hurt=1></annotation-xml></math>',
    '<form action="https://example.org"><input name=id autofocus onfocus=window.hurt=1></form>', '<base href="https://example.org/"><a href="x">x</a>', '<a href="javascript:window.hurt=1">x</a>',
    "[a](javascript:window.hurt=1)", "[a](JaVaScRiPt:window.hurt=1)", "[a](  javascript:window.hurt=1)", "[a](java\nscript:window.hurt=1)", "[a](java&#10;script:window.hurt=1)",
    "[a](&#106;avascript:window.hurt=1)", "[a](\u0001javascript:window.hurt=1)", "[a](vbscript:window.hurt=1)", "[a](data:text/html,<script>window.hurt=1</script>)",
    "[a](data:text/html;base64,PHNjcmlwdD53aW5kb3cuaHVydD0xPC9zY3JpcHQ+)", "[a](file:///etc/passwd)", "[a](blob:x)", "[a](/admin/pause)", "[a](//example.org)", "[a](#turns)",
    "![a](javascript:window.hurt=1)", "![a](https://example.org/x.png)", "![a](data:image/svg+xml,<svg onload=window.hurt=1>)", '![a"onerror="window.hurt=1](x)', "![a](x\"onerror=\"window.hurt=1)",
    "[a]: javascript:window.hurt=1\n\n[a]", "[a]: data:text/html,x\n\n![a]", "<javascript:window.hurt=1>", "<data:text/html,x>", '[a](https://example.org "x\\" onmouseover=\\"window.hurt=1")',
    "```html\n<img src=x onerror=window.hurt=1>\n```", '```"><img/src=x/onerror=window.hurt=1>\nx\n```', "`<img src=x onerror=window.hurt=1>`", "| <img src=x onerror=window.hurt=1> |\n| --- |\n| x |",
    "$\\href{javascript:window.hurt=1}{x}$", "$\\url{javascript:window.hurt=1}$", "$$\\includegraphics{https://example.org/x.png}$$", "$\\htmlData{x=1}{y}$", "$\\htmlStyle{background:url(https://example.org)}{y}$",
    "$\\text{<img src=x onerror=window.hurt=1>}$", "\\(<img src=x onerror=window.hurt=1>\\)", "$$<script>window.hurt=1</script>$$", "<!--><img src=x onerror=window.hurt=1>-->",
    "<![CDATA[><img src=x onerror=window.hurt=1>]]>", "<noscript><p title=\"</noscript><img src=x onerror=window.hurt=1>\"></noscript>", "<template><img src=x onerror=window.hurt=1></template>",
    '<div id="message"></div><a id="talk" name="session">x</a>', "<x-y onclick=window.hurt=1>x</x-y>", "&lt;img src=x onerror=window.hurt=1&gt;",
]
FORBIDDEN = "script, img, svg, iframe, object, embed, form, style, link, base, details, template, noscript, input, video, audio, annotation-xml, mglyph"


class TextTest(ScriptedCase):
    def inside(self, selector, what="innerText"):
        return self.browser.run("return [...document.querySelectorAll('.assistant .text ' + arguments[0])].map((e) => e[arguments[1]].trim())", selector, what)

    def test_chat_page_shows_markdown_while_it_arrives(self):
        self.begin("Tell me of ships.")
        parts = re.findall(r"[\s\S]{1,7}", TEXT)
        for part in parts[:len(parts) // 2]:
            self.say(part)
        self.browser.until("the first half is there", lambda: self.inside("h2") == ["Ships"])
        for part in parts[len(parts) // 2:]:
            self.say(part)
        self.finish()
        for selector, words in {"strong": ["ship"], "em": ["large"], "del": ["not"], "ol > li": ["hull", "mast\nsail"], "blockquote": ["said a sailor"], "th": ["part", "number"],
                                "td": ["mast", "3"], "p > code": ["float"]}.items():
            self.assertEqual(self.inside(selector), words, selector)
        self.assertIn("☑ done", self.inside("li")[-1])
        self.assertEqual(len(self.inside("br")), 1)
        self.assertEqual(self.inside("a", "href"), ["https://example.org/harbour", "https://example.org/map.png"])
        self.assertEqual(self.inside("a", "rel"), ["noopener noreferrer nofollow"] * 2)
        self.assertEqual(self.inside("pre"), ['def sail(ship):\n    return "<b>" + ship'])
        self.assertEqual(self.inside(".bar span"), ["python"])

    def test_chat_page_keeps_the_selection_while_an_answer_grows(self):
        self.begin("Go on.")
        self.say("The first paragraph.\n\nThe second")
        self.browser.until("two paragraphs", lambda: len(self.inside("p")) == 2)
        self.browser.run("getSelection().selectAllChildren(document.querySelector('.assistant .text p'))")
        for word in (" paragraph", " grows.", "\n\nA third."):
            self.say(word)
        self.finish()
        self.assertEqual(len(self.inside("p")), 3)
        self.assertEqual(self.browser.run("return getSelection().toString().trim()"), "The first paragraph.")

    def test_copy_buttons_copy_the_code_and_the_answer(self):
        self.browser.cdp("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        self.answer("Code?", "Here:\n\n```\na < b &&  c\n\td\n```\n")
        for button, wanted in (('[aria-label="Copy the code"]', "a < b &&  c\n\td"), ('[aria-label="Copy the answer"]', "Here:\n\n```\na < b &&  c\n\td\n```\n")):
            self.browser.click(button)
            self.browser.sees(button, "Copied")
            self.assertEqual(self.browser.run("return navigator.clipboard.readText()"), wanted)
        # Pages that came without TLS have no access to the clipboard.
        self.browser.run("Object.defineProperty(navigator, 'clipboard', {value: undefined}); navigator.constructor.prototype")
        self.browser.run("document.querySelectorAll('.bar button')[0].textContent = 'Copy'")
        self.browser.click('[aria-label="Copy the code"]')
        self.browser.sees('[aria-label="Copy the code"]', "Copied")

    def test_chat_page_draws_formulas_and_shows_prices_as_text(self):
        self.answer("Mass?", "Energy \\(E = mc^2\\) and $\\frac{1}{2}$:\n\n$$\n\\int_0^1 x\\,dx\n$$\n\nand \\[a_1\\] end. It costs $5 and $6, or $5-$7. `$x$` stays, $\\nosuch{ stays, $$ stays.\n")
        self.assertEqual(self.browser.run("return document.querySelectorAll('.text math').length"), 4)
        self.assertEqual(self.browser.run("return document.querySelectorAll('.text math[display=block]').length"), 2)
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('.text mfrac')].length"), 1)
        text = self.inside(".block:last-child")[0]
        for words in ("It costs $5 and $6, or $5-$7.", "$x$ stays", "$\\nosuch{ stays, $$ stays."):
            self.assertIn(words, text)
        self.assertGreater(self.browser.run("return document.querySelector('mfrac').getBoundingClientRect().height"), 15)

    def test_markup_in_a_models_answer_is_never_active(self):
        self.browser.run("""window.policy = []; addEventListener("securitypolicyviolation", (event) => window.policy.push(event.violatedDirective + " " + event.blockedURI))""")
        for attack in ATTACKS:
            for text in (attack, f"* x {attack} y\n\n> {attack}"):
                self.answer("Well?", text)
        self.begin("All?")
        self.say("\n\n".join(ATTACKS))
        self.finish()
        found = self.browser.run("""
            const turns = document.getElementById("turns"), all = [...turns.querySelectorAll(".text *")];
            for (const link of turns.querySelectorAll(".text a")) link.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
            return {
              forbidden: all.filter((e) => e.matches(arguments[0])).map((e) => e.outerHTML),
              handlers: all.flatMap((e) => [...e.attributes].filter((a) => /^on|^style$|^srcdoc$|^id$|^name$/.test(a.name) && !e.closest("math")).map(() => e.outerHTML)),
              math: all.filter((e) => e.closest("math")).flatMap((e) => [...e.attributes].filter((a) => /^on|href|src/.test(a.name)).map(() => e.outerHTML)),
              addresses: [...new Set([...turns.querySelectorAll(".text [href]")].map((e) => new URL(e.href).origin))],
              hurt: window.hurt ?? null}""", FORBIDDEN)
        self.assertEqual(found, {"forbidden": [], "handlers": [], "math": [], "addresses": ["https://example.org"], "hurt": None})
        self.assertEqual(self.browser.run("return [...new Set(window.policy)]"), [])
        self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').map((e) => new URL(e.name).origin).filter((o) => o !== location.origin)"), [])
        # The text that comes back from the browser's storage is harmless, too.
        self.load()
        self.assertGreater(len(self.shown()), len(ATTACKS))
        self.assertEqual(self.browser.run("return [window.hurt ?? null, [...document.querySelectorAll('#turns .text *')].filter((e) => e.matches(arguments[0])).length]", FORBIDDEN), [None, 0])

    def test_markup_in_the_users_texts_and_conversation_names_is_never_active(self):
        self.answer(ATTACKS[0], "Well.")
        self.browser.click("#kept-button")
        self.browser.sees("#kept-list", ATTACKS[0])
        self.assertEqual(self.browser.run("return [window.hurt ?? null, document.querySelectorAll('#app img').length]"), [None, 1])

    def test_chat_page_shows_texts_that_are_hard_to_parse_within_20_seconds(self):
        hard = {"quotes": ">" * 20000, "lists": "\n".join(" " * i + "- x" for i in range(300)), "brackets": "[" * 20000, "stars": "*a_b " * 6000, "dollars": "$a \\( " * 8000, "braces": "$" + "{" * 3000 + "$",
                "backquotes": "".join("`" * (i % 90) + " " for i in range(2000)), "long": "word " * 60000, "table": "|" * 10000 + "\n" + "|-" * 5000, "macro": "$\\def\\a{\\a\\a}\\a$", "tags": "<a " * 10000}
        for name, text in hard.items():
            self.browser.click("#new-chat")
            self.begin(name)
            begun = time.monotonic()
            self.say(text)
            self.finish()
            took = time.monotonic() - begun
            self.assertLess(took, 20, name)
            self.assertGreater(len(self.browser.run("return [...document.querySelectorAll('.assistant .text')].at(-1).textContent")), 2, name)
            print(f"{name}: {len(text)} characters are shown after {took:.2f} s")

    def html(self):
        return self.browser.run("return [...document.querySelectorAll('.assistant .text')].at(-1).innerHTML")

    def test_long_answer_is_parsed_in_short_pieces_with_bounded_work(self):
        self.browser.run("""
            window.read = [];
            const {lex} = marked.Lexer.prototype;
            marked.Lexer.prototype.lex = function (text) { window.read.push(text.length); return lex.call(this, text); }""")
        self.browser.cdp("Performance.enable", timeDomain="threadTicks")  # processor time is independent of other programs
        work = lambda: next(m["value"] for m in self.browser.cdp("Performance.getMetrics")["metrics"] if m["name"] == "ScriptDuration")
        texts = {"list": "- item **bold** text\n", "nested lists": "- a\n  - b\n    - c *d*\n", "paragraph": "word and *em* text ", "formulas": "$x$ ", "formulas on lines": "$$\\frac{a}{b}$$\n\n",
                 "rows": "| a | b |\n| - | - |\n", "headings": "# h\n", "brackets": "[", "quotes": "> - ", "openings": "$a \\( ", "signs": "_a*",
                 "words that grow": "$$\\def\\a{" + "x" * 800 + "}" + "\\a" * 60 + "$$\n\n", "names": "[a]: https://example.org\n"}
        for name, text in texts.items():
            with self.subTest(name):
                text = (text * (200000 // len(text) + 1))[:200000]
                self.browser.click("#new-chat")
                self.begin(name)
                before = work()
                for begin in range(0, len(text), 20000):
                    self.say(text[begin:begin + 20000])
                self.finish()
                took, elements = work() - before, self.browser.run("return document.querySelectorAll('.assistant .text *').length")
                self.assertLessEqual(self.browser.run("return Math.max(...window.read.splice(0))"), 8200)
                self.assertLess(elements, 45000)
                self.assertLess(took, 15)
                self.assertEqual(self.browser.run("return [...document.querySelectorAll('.assistant .text')].at(-1).textContent.includes('too long for the page')"), elements > 30000)
                print(f"{name}: {elements} elements, {took:.2f} s of a processor")

    def test_answer_continues_as_plain_text_beyond_the_bounds_of_parsing(self):
        text = "".join(f"**word {i}**\n\n" for i in range(14000))
        self.answer("Go on.", text)
        self.assertIn("The rest is shown as it was written", self.inside("p")[-1])
        shown = self.browser.run("return document.querySelector('.assistant .text').textContent")
        self.assertEqual(re.findall(r"word (\d+)", shown), [str(i) for i in range(14000)])
        self.assertTrue(shown.endswith("**word 13999**\n\n"))

    def test_markdown_blocks_longer_than_a_parsed_piece_keep_their_form(self):
        code = "".join(f"\tline {i} <b>\n\n" for i in range(1500)) + "    ```\n" + "x" * 30000
        rows = "| a | b |\n| - | - |\n" + "".join(f"| {i} | x |\n" for i in range(1500))
        items = "".join(f"{i}. item\n" for i in range(1, 1500))
        inside = "- code:\n\n  ```c\n" + "  int x;\n" * 1500 + "  ```\n- last\n"
        self.answer("Code?", f"Here:\n\n```make\n{code}\n```\n\n**after**\n")
        self.assertEqual(self.inside("pre", "textContent"), [code.strip()])
        self.assertEqual(self.inside(".bar span"), ["make"])
        self.assertEqual(self.inside("strong"), ["after"])
        self.browser.cdp("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        self.browser.run("scrollTo(0, 0)")
        self.browser.click('[aria-label="Copy the code"]')
        self.browser.sees('[aria-label="Copy the code"]', "Copied")
        self.assertEqual(self.browser.run("return navigator.clipboard.readText()").strip(), code.strip())
        self.answer("Rows?", f"{rows}\n**after**\n")
        self.assertEqual(self.inside("td:first-child"), [str(i) for i in range(1500)])
        self.answer("Items?", f"{items}\n**after**\n")
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('.text ol')].flatMap((l) => [...l.children].map((_, i) => l.start + i))"), list(range(1, 1500)))
        self.answer("Inside?", f"{inside}\n**after**\n")
        self.assertEqual(sum(text.count("int x;") for text in self.inside("pre", "textContent")), 1501 - 1)
        self.assertEqual(self.inside("li")[-1], "last")
        self.assertEqual(self.inside("strong"), ["after"] * 4)

    def test_answer_that_came_in_pieces_looks_like_the_whole_answer(self):
        links = "".join(f"See [harbour] {i} and [the *map*][m].\n\n" for i in range(600)) + "[harbour]: https://example.org/harbour\n[m]: https://example.org/m\n"
        for name, text in {"ships": TEXT * 30, "links": links, "formulas": "Let $a_1$ be\n$$\n\\frac{1}{2}\n\nx\n$$\n\nand \\(b\\).\n\n" * 200, "attacks": "\n\n".join(ATTACKS), "lines\r\n": "one\r\ntwo\n\tthree\n" * 500}.items():
            with self.subTest(name):
                self.browser.click("#new-chat")
                self.answer(name, *[text[i:i + 777] for i in range(0, len(text), 777)])
                came = self.html()
                self.load()
                self.drawn()
                self.assertEqual(self.html(), came)
        self.browser.click("#new-chat")
        self.answer("links", links)
        self.assertEqual(self.inside("a", "href"), ["https://example.org/harbour", "https://example.org/m"] * 600)

    def test_chat_page_passes_axe_with_every_kind_of_text(self):
        self.answer("Tell me of ships.", TEXT, "\n$$\\sum_i x_i$$\n")
        self.addCleanup(self.browser.theme, False)
        for dark in (False, True):
            self.browser.theme(dark)
            self.assertEqual(accessibility.violations(self.browser), [])
        self.assertEqual(accessibility.sticking_out(self.browser), [])


if __name__ == "__main__":
    verdict.run_tests()
