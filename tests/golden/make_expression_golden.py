#!/usr/bin/env python3
"""Makes expressions.json: the output of jinja2, configured as in HF transformers, for small templates. Together the
templates use every method, filter, test and operator, with texts in several scripts. The output is null for a refused
template. Needs: pip install transformers jinja2"""
import copy
import json
import os

from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = os.path.dirname(os.path.abspath(__file__))
VARIABLES = {
    "t": "  Straße ÉCOLE élan\u3000\u00a0", "a": "a,b,,c", "lines": "one\r\ntwo\u2028three\x0bfour\n", "s": "it's \"q\" \x7f\u200b\u00ad\U0001f600\n",
    "d": {"b": 2, "A": [1, {"x": None}], "c": 1.5, "items": "mine"}, "l": [3, 1, 2, 1], "w": ["b", "A", "a", "B"], "n": -7, "f": 2.5, "none": None,
    "people": [{"name": "Zoe", "age": 3, "tags": ["x"]}, {"name": "adam", "age": 30}, {"name": "Eve", "age": 3}], "empty": "", "zero": 0,
}
METHODS = ["strip()", "lstrip()", "rstrip()", "strip('e ')", "strip(' É\u3000')", "upper()", "lower()", "swapcase()", "capitalize()", "title()", "split()",
           "split(' ', 1)", "split(none, 1)", "rsplit(none, 1)", "rsplit(maxsplit=1)", "split('')", "replace('e', 'É')", "replace('', '-')", "replace('e', 'x', 1)", "find('É')",
           "rfind('É')", "index('q')", "index('É')", "rindex('e')", "count('e')", "count('')", "startswith('  S')", "endswith(('x', '\u00a0'))", "isdigit()",
           "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()", "partition('É')", "rpartition('É')", "partition('q')", "removeprefix('  ')",
           "removesuffix('\u00a0')", "zfill(30)", "ljust(24, '.')", "rjust(24)", "center(24, '*')", "center(23, '*')", "nothing()", "splitlines()"]
FILTERS = ["trim", "trim('x')", "upper", "lower", "capitalize", "title", "length", "count", "string", "safe", "e", "escape", "int", "int(5)", "float", "float(0.5)",
           "abs", "round", "round(1)", "round(1, 'floor')", "round(method='ceil')", "list", "first", "last", "reverse | list", "reverse | join", "unique | list", "sort", "sort(reverse=true)",
           "sort(case_sensitive=true)", "dictsort", "dictsort(true)", "dictsort(false, 'value')", "dictsort(reverse=true)", "items | list", "min", "max", "sum", "batch(3) | list",
           "batch(3, 'x') | list", "join('-')", "join", "default('D')", "d('D', true)", "indent", "indent(2, true)", "tojson", "tojson(ensure_ascii=true)", "tojson(indent=2)",
           "tojson(separators=(',', ':'))", "tojson(sort_keys=true)", "tojson(indent=1, sort_keys=true)", "wordcount", "replace('e', 'x')", "map('upper') | list",
           "map('int') | list", "select | list", "reject('odd') | list", "select('string') | list", "nothing"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "callable", "upper", "lower",
         "odd", "even", "divisibleby 3", "in [1, 3]", "sameas none", "eq 3", "ne 3", "lt 3", "ge 3", "gt(2)", "le 2", "== 3", "nothing"]
SUBJECTS = ["t", "a", "s", "d", "l", "w", "n", "f", "none", "people", "empty", "zero", "missing", "true", "1.0", "'12'", "' -3.7 '", "'a1'", "lines", "d.items", "[[1, 'x'], [0.1]]"]
OTHERS = [
    "'%s|%5d|%-6.2f|%x|%%' % ('é', 42, 3.14159, 255)", "'%(b)s %(c).1f' % d", "'%s' % 'x'", "'%d' % 'x'", "'%s %s' % ('x',)", "'%r' | format('x')", "'%s-%s' | format(1, none)",
    "'%5s|%-5s|%.2s' % ('ab', 'cd', 'efg')", "'%+d %05d % d' % (3, -4, 5)", "'%e %g' % (12345.678, 0.0001)", "'%i' % 3.9", "'%s' % true", "'%x' % 1.5", "'%o' % 2.0", "'%X' % true", "'%x' % 255",
    "1 < 2 < 3", "1 < 3 < 2", "3 > 2 >= 2 != 1", "'a' in 'abc' in ['abc']", "1 not in [2] == true", "[1, 2] < [1, 3]", "[1] < ['a']", "2 ** 3 ** 2", "7 // -2", "7 % -3", "-7 % 3", "7.5 // 2",
    "1e3", "1_000", "2.5e-3", "'\\x41\\u00e9\\U0001f600\\101\\a\\q'", "'a' 'b'", "{1: 'a', '1': 'b', 1.0: 'c', none: 'd', true: 'e'}", "{1: 'a', 2.5: 'b', none: [1]} | tojson",
    "{1: 'a', '1': 'b'}[1]", "{1: 'a'}.get(true)", "{0: 'x'}.get(0.0, 'y')", "{[1]: 2}", "d['items']", "d['keys'] is defined", "d.items is callable", "d.get('b')",
    "d.get('q', 'z')", "d.values() | list", "d.keys() | list", "d.copy()", "dict(d, z=1)", "dict([['a', 1], ['b', 2]])", "namespace(items=3).items", "namespace() is mapping",
    "range(3) | list", "range(5, 0, -2) | list", "l[::-1]", "l[1:]", "t[2:5]", "t[-3]", "l[10]", "l[10] is defined", "d.nope.deeper", "none.x is defined", "none.x.y", "missing.x", "missing + 1",
    "missing ~ 'x'", "missing == none", "'x' in missing", "l.index(2)", "l.count(1)", "l.index(9)", "people | map(attribute='name') | join(', ')", "people | map(attribute='tags.0', default='-') | list",
    "people | selectattr('age', 'gt', 3) | map(attribute='name') | list", "people | rejectattr('tags', 'defined') | map(attribute='name') | list", "people | sort(attribute='name') | map(attribute='name') | list",
    "people | sort(attribute='age,name') | map(attribute='name') | list", "people | sort(true, attribute='age') | map(attribute='name') | list", "people | sum(attribute='age')", "people | max(attribute='age')",
    "people | unique(attribute='age') | map(attribute='name') | list", "people | join('|', attribute='age')", "[1.5, 2] | sum(start=0.5)", "['a'] | sum",
    "'<b>' | e + '<i>'", "('<b>' | safe) + '<i>'", "'<i>' + ('<b>' | safe)", "('<b>' | safe) ~ '<i>'", "'<b>' | e | e", "'<b>' | safe | forceescape",
    "[s, t]", "{'k': s}", "s | tojson(ensure_ascii=true)", "1e16", "1e-5", "123456789012345678", "0.1 + 0.2", "-0.0", "1 / 3", "1e400", "[1e400, -1e400] | tojson", "true + 1", "'5' * 3", "[1] * 3",
    "'abc' | first", "'' | first", "'x' if missing", "'x' if zero else 'y'", "not zero and 1 or 2", "1 and 0", "'' or none", "(1,)", "(1, 2)", "()", "[(1, 'a'), (2,)]", "w | map('lower') | unique | list",
    "d | attr('b')", "'abc' is in 'abcd'", "3 is not in [1]", "'a' is string and 'b' is not none", "'{} {name}'.format(1, name='x')", "lines.splitlines()", "lines.splitlines(true)", "raise_exception('no')",
    "'a\\\nb'", "' x ' | trim | length", "'ABC' | list | reverse | join", "l | batch(2) | map('list') | list", "'b' in d", "1 in d", "d | length", "[3, 'a'] | sort", "[2, none] | max", "d == d.copy()", "d is sameas d",
]
BLOCKS = [
    "{% raw %}{{ x }} {% if %}{% endraw %}|", "a {%- raw -%}  {{ y }}  {%- endraw -%}  b", "{% raw %}\n  x\n  {% endraw %}\ny", "{% filter upper %}x{% set q = 'y' %}{{ q }}{% endfilter %}{{ q is defined }}",
    "{% filter trim | replace('a', 'b') %} aXa {% endfilter %}", "{% set x | trim | upper %}  é {{ n }} {% endset %}[{{ x }}]", "{% set x | default('D') %}{% endset %}[{{ x }}]", "{% set x %}{% endset %}[{{ x }}]", "{% with u = 1, v = n %}{{ u }}{{ v }}{% set u = 2 %}{{ u }}{% endwith %}{{ u is defined }}",
    "{% with %}{% set u = 1 %}{% endwith %}{{ u is defined }}", "{% for (k, v) in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% set (x, y) = (1, 2) %}{{ x + y }}", "{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{% else %}none{% endfor %}",
    "{% macro m(a, b='B') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, c=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set d.b = 3 %}", "{% for i in l %}{% if i == 2 %}{% break %}{% endif %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "{{ loop is defined }}{% for i in [1] %}{{ loop is mapping }}{{ loop.first }}{% endfor %}",
    "{%- for k in {2: 'b', 1: 'a'} | dictsort %}{{ k[0] + 1 }}{% endfor %}", "{# c #}\n x\n  {# d #}\n y", "{% generation %}x{% endgeneration %}", "{{ '{{' }}{{ '%}' }}", "{% if n < 0 < f %}in{% endif %}",
]


def main():
    sources = [f"{{{{ {subject}.{method} }}}}" for subject in ("t", "a", "s", "empty", "'-12'", "'ÉÀ1'", "'x y'") for method in METHODS]
    sources += [f"{{{{ {subject} | {name} }}}}" for subject in SUBJECTS for name in FILTERS]
    sources += [f"{{{{ {subject} is {name} }}}}" for subject in SUBJECTS + ["3", "4", "'A'"] for name in TESTS]
    sources += [f"{{{{ {one} }}}}" for one in OTHERS] + BLOCKS
    cases = []
    for source in sources:
        try:
            text = _compile_jinja_template(source).render(**copy.deepcopy(VARIABLES))
        except Exception:  # any exception of Python or jinja2: Quire must refuse the template, too
            text = None
        # Left out: outputs with Python's own names of objects, and jinja2's failure to hash lists.
        if "d.items |" not in source and "]] | unique" not in source and "people | unique |" not in source:
            cases.append([source, text])
    with open(os.path.join(HERE, "expressions.json"), "w", encoding="utf-8") as out:
        json.dump({"variables": VARIABLES, "cases": cases}, out, ensure_ascii=False, indent=0, separators=(",", ":"))
        out.write("\n")
    print(len(cases), sum(text is None for _, text in cases), "refused")


if __name__ == "__main__":
    main()
