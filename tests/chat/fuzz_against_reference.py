#!/usr/bin/env python3
"""TPL-01: random templates over random contexts render as the reference renders them, or fail as it fails.

Programs come from the grammar of the subset; every construct is drawn often, each file of cases from its seed.
The reference is Transformers' own environment over Jinja2 3.1.6, in the pinned oracle environment:

    .venv/oracle/bin/python tests/chat/fuzz_against_reference.py --slm BUILD/apps/slm/slm [--seconds 30] [--seed 1]

A difference is a different text, a different class of exception, or a text where the other side fails. What this
project refuses by name (UNSUPPORTED, TPL-FORBIDDEN, TPL-BUDGET, TPL-BOUND) is counted. Exit status 1 on a difference.
"""
import argparse
import collections
import copy
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings

from transformers.utils.chat_template_utils import _compile_jinja_template

warnings.simplefilter("ignore")
CLOCK = "2026-11-30T12:34:56"
NAMED = {"UNSUPPORTED", "TPL-FORBIDDEN", "TPL-BUDGET", "TPL-BOUND"}
STRINGS = ["", "a", "Ab c", " x ", "\n\nq\n", "é", "ß", "İ", "ΑΣ", "日本語", "🙂b", "a,b,,c", "<&>'\"", "12", "-3", "4.5",
           "1e3", "0x1f", "user", "system", "</think>", "a\tb", "\u2028", "\u00a0z\u001f", "ǆ", "a.b", "x=1", "\\", "%s",
           "{}", "items", "٣", "ﬁ", "\u0301", "a-b (c)", "nan", "_u", "content", "\x7f"]
NUMBERS = ["0", "1", "-1", "2", "3", "7", "10", "255", "1.0", "2.5", "-0.5", "1e16", "1e-05", "123456789012345678901",
           "0.1", "1_000", "0x1F", "1e22", "5.5", "-7"]
NAMES = ["s", "t", "n", "f", "b", "z", "l", "d", "m", "e", "mixed", "missing", "messages", "tools", "deep", "big"]
CONTEXT = {
    "s": "Hello World", "t": " é\n", "n": 5, "f": 2.5, "b": True, "z": None, "l": [3, 1, 2], "d": {"a": 1, "B": "x", "items": [1]},
    "m": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "n": 2}], "e": [],
    "mixed": [1, "1", 1.0, True, None, [1], {"k": 1}], "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "<b>é"}],
    "tools": None, "deep": {"x": {"y": [{"z": "w"}, {"z": "v"}], "k": {"a": [1, 2]}}}, "big": 10**30,
}
FILTERS = {  # name: kinds of arguments, each drawn with some probability
    "abs": [], "batch": ["n", "v"], "capitalize": [], "center": ["n"], "count": [], "d": ["v", "b"], "default": ["v", "b"],
    "dictsort": ["b", "by", "b"], "e": [], "escape": [], "filesizeformat": ["b"], "first": [], "float": ["v"], "forceescape": [],
    "format": ["v", "v"], "groupby": ["key"], "indent": ["n", "b", "b"], "int": ["v", "n"], "items": [], "join": ["s", "key"],
    "last": [], "length": [], "list": [], "lower": [], "map": ["fn", "v"], "max": ["b", "key"], "min": ["b", "key"],
    "reject": ["test", "v"], "rejectattr": ["key", "test", "v"], "replace": ["s", "s", "n"], "reverse": [], "round": ["n", "how"],
    "safe": [], "select": ["test", "v"], "selectattr": ["key", "test", "v"], "slice": ["n", "v"], "sort": ["b", "b", "key"],
    "string": [], "sum": ["key", "n"], "title": [], "tojson": ["b", "indent", "seps", "b"], "trim": ["s"],
    "truncate": ["n", "b", "s", "n"], "unique": ["b", "key"], "upper": [], "urlencode": [], "wordcount": [], "xmlattr": ["b"],
    "nonesuch": [],
}
TESTS = {"odd": [], "even": [], "divisibleby": ["n"], "defined": [], "undefined": [], "filter": [], "test": [], "none": [], "boolean": [],
         "false": [], "true": [], "integer": [], "float": [], "lower": [], "upper": [], "string": [], "mapping": [], "number": [],
         "sequence": [], "iterable": [], "callable": [], "escaped": [], "in": ["v"], "eq": ["v"], "equalto": ["v"], "ne": ["v"],
         "gt": ["v"], "ge": ["v"], "lt": ["v"], "le": ["v"], "greaterthan": ["v"], "lessthan": ["v"], "nonesuch": []}
METHODS = {"strip": ["s"], "lstrip": ["s"], "rstrip": ["s"], "split": ["s", "n"], "rsplit": ["s", "n"], "splitlines": ["b"],
           "startswith": ["s", "n", "n"], "endswith": ["s", "n", "n"], "upper": [], "lower": [], "title": [], "capitalize": [],
           "swapcase": [], "casefold": [], "replace": ["s", "s", "n"], "find": ["s", "n", "n"], "rfind": ["s", "n"], "index": ["s"],
           "rindex": ["s"], "count": ["s", "n"], "join": ["v"], "partition": ["s"], "rpartition": ["s"], "removeprefix": ["s"],
           "removesuffix": ["s"], "center": ["n", "c"], "ljust": ["n", "c"], "rjust": ["n", "c"], "zfill": ["n"], "expandtabs": ["n"],
           "format": ["v", "v"], "isalnum": [], "isalpha": [], "isascii": [], "isdecimal": [], "isdigit": [], "isidentifier": [],
           "islower": [], "isnumeric": [], "isprintable": [], "isspace": [], "istitle": [], "isupper": [], "items": [], "keys": [],
           "values": [], "get": ["s", "v"], "copy": [], "append": ["v"], "pop": ["n"], "update": ["v"], "bit_length": [],
           "is_integer": [], "conjugate": [], "nonesuch": []}
# No program in which one of these runs gives a text.
RAISING = {"filter nonesuch", "test nonesuch", "method nonesuch", "method append", "method pop", "method update"}
LOOP = ["index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem", "depth", "depth0", "cycle(1, 2)",
        "changed(x)", "nope"]
FORMATS = ["%s", "%d", "%5d|", "%-5s|", "%05.1f", "%x", "%r", "%%", "%(a)s", "%e", "%g", "%+d", "%c", "%s %s", "%.2s", "%i", "%#x", "%a"]
BRACES = ["{}", "{0}", "{:>5}", "{:05d}", "{a}", "{0[0]}", "{0.real}", "{!r}", "{:,}", "{:.2f}", "{:x}", "{{}}", "{:^7}", "{:+}", "{:%}",
          "{:e}", "{:g}", "{:_}", "{:<3}{}", "{"]
# What careful programs apply: to which kind of value, and with which arguments. Most random programs fail somewhere; these
# seldom do, so that what stands late in a program is exercised too.
CAREFUL_FILTERS = {
    "abs": "num", "batch": "list 2|3, 'x'", "capitalize": "str", "center": "str 9", "count": "list", "d": "any |'x'|'x', true",
    "default": "any |'x'|0, true|'y', boolean=true", "dictsort": "flat |true|false, 'key', true|reverse=true", "e": "any", "escape": "any",
    "filesizeformat": "num |true", "first": "list", "float": "any |0.5", "forceescape": "any", "format": "format 5, 6", "groupby": "dicts 'role'",
    "indent": "str |2|3, true|1, false, true|first=true", "int": "any |7|3, 16", "items": "dict", "join": "list |','|', '", "last": "list",
    "length": "list", "list": "list", "lower": "any", "map": "list 'string'|'default', 3|attribute='role'|'tojson'", "max": "nums |true",
    "min": "nums |true", "reject": "list 'string'|'none'|'equalto', 1", "rejectattr": "dicts 'role'|'content', 'none'|'role', 'equalto', 'user'",
    "replace": "str 'l', 'LL'|'o', '', 1", "reverse": "list", "round": "num |1|0, 'floor'|1, 'ceil'", "safe": "any",
    "select": "list 'string'|'none'|'equalto', 1", "selectattr": "dicts 'role'|'content', 'none'|'role', 'in', ['user', 'x']",
    "slice": "list 2|3, 'x'", "sort": "nums |true|reverse=true", "string": "any", "sum": "nums |start=2", "title": "any",
    "tojson": "json |indent=2|ensure_ascii=true|sort_keys=true|separators=(',', ':')", "trim": "any |'H'", "truncate": "str 9|9, true|9, true, '!', 0",
    "unique": "nums |true", "upper": "any", "urlencode": "str", "wordcount": "str", "xmlattr": "flat |false"}
CAREFUL_TESTS = {
    "odd": "int", "even": "int", "divisibleby": "int 2|3", "defined": "any", "undefined": "any", "filter": "str", "test": "str", "none": "any",
    "boolean": "any", "false": "any", "true": "any", "integer": "any", "float": "any", "lower": "any", "upper": "any", "string": "any",
    "mapping": "any", "number": "any", "sequence": "any", "iterable": "any", "callable": "any", "escaped": "any", "in": "str 'abcH'|s|['a', t]",
    "eq": "any 1|s", "equalto": "any 1|'x'", "ne": "any 1|none", "gt": "num 1|2.5", "ge": "num 1|n", "lt": "str 'b'|s", "le": "num 7|f",
    "greaterthan": "num 0|n", "lessthan": "num 9|n"}
CAREFUL_METHODS = {
    "strip": "str |'H'|' d'", "lstrip": "str |'H'", "rstrip": "str |'d'", "split": "str |'o'|' ', 1|none, 1", "rsplit": "str |'o'|' ', 1",
    "splitlines": "str |true", "startswith": "str 'H'|('a', 'H')|'e', 1", "endswith": "str 'd'|('x', '')", "upper": "str", "lower": "str", "title": "str",
    "capitalize": "str", "swapcase": "str", "casefold": "str", "replace": "str 'l', 'L'|'', '-', 2", "find": "str 'o'|'o', 5|'z'", "rfind": "str 'o'|''",
    "index": "str ''", "rindex": "str ''", "count": "str 'o'|''", "join": "str ['a', s]|'xyz'|[]", "partition": "str ' '|'z'",
    "rpartition": "str ' '|'z'", "removeprefix": "str 'H'|'x'", "removesuffix": "str 'd'|'x'", "center": "str 9|9, '*'", "ljust": "str 14|9, 'é'",
    "rjust": "str 14|9, '.'", "zfill": "str 9|0", "expandtabs": "str |4|0", "format": "braces 5, 6", "isalnum": "str", "isalpha": "str",
    "isascii": "str", "isdecimal": "str", "isdigit": "str", "isidentifier": "str", "islower": "str", "isnumeric": "str", "isprintable": "str",
    "isspace": "str", "istitle": "str", "isupper": "str", "items": "dict", "keys": "dict", "values": "dict", "get": "dict 'a'|'z', 'w'|'z'",
    "copy": "dict", "bit_length": "int", "is_integer": "float", "conjugate": "num"}


class Writer:
    def __init__(self, rng: random.Random, counts: collections.Counter) -> None:
        self.rng = rng
        self.counts = counts
        self.names = list(NAMES)
        self.macros: list[str] = []
        self.callers: list[str] = []  # the macros that a call block may name
        self.namespaces: list[str] = []
        self.loops = 0
        self.careful = rng.random() < 0.5
        self.constant = False  # whether an expression without variables is being written: the optimizer evaluates it

    def pick(self, *choices):
        return self.rng.choice(choices)

    def note(self, what: str) -> None:
        self.counts[what] += 1

    def string(self) -> str:
        text = self.rng.choice(STRINGS)
        quoted = json.dumps(text, ensure_ascii=self.rng.random() < 0.3)
        if self.rng.random() < 0.3 and "'" not in text and "\\" not in quoted:
            quoted = "'" + text.replace("\\", "\\\\") + "'" if "\n" not in text else quoted
        return quoted

    def of(self, kind: str, depth: int) -> str:
        """An expression that has this kind of value."""
        r = self.rng
        deeper = lambda: self.expression(depth - 1)  # noqa: E731
        if kind == "any":
            return self.paren(deeper())
        if kind == "str":
            return r.choice([self.string(), self.string(), "s", "t", f"({deeper()} | string)", f"('a ' ~ {self.paren(deeper())})"])
        if kind == "num":
            return r.choice([self.of("int", depth), self.of("float", depth)])
        if kind == "int":
            return r.choice(["n", "7", "0", "12", "(s | length)", "(3 - n)"] + ["loop.index0"] * (self.loops > 0))
        if kind == "float":
            return r.choice(["f", "2.5", "(-0.5)", "1e16", "(n / 2)"])
        if kind == "list":
            return r.choice(["l", "m", "mixed", "'xyz'", "s.split()", "messages", f"[{deeper()}, 1]"])
        if kind == "nums":
            return r.choice(["l", "[5, 2.5, n]", "(3, 3, 1)", "range(4)"])
        if kind == "dicts":
            return r.choice(["m", "[{'role': 'user', 'content': none}]"])
        if kind == "dict":
            return r.choice(["d", "deep", "m[0]", "{'a': " + deeper() + "}"])
        if kind == "flat":
            return r.choice(["{'b': 1, 'a': n}", "m[0]", "{'x': s}"])
        if kind == "json":
            return r.choice(["d", "m", "deep", "mixed", "s", "big", "f", "[1, {'a': none}]"])
        if kind == "format":
            return r.choice(["'%s-%s'", "'%d|%5d'", "'%x %r'", "'%05.1f%s'"])
        return r.choice(["'{} {}'", "'{1}{0}'", "'{:>5}|{:05d}'", "'{!r}{:x}'"])  # braces

    def applied(self, table: dict[str, str], depth: int) -> tuple[str, str, str]:
        """A name of the table, what it is applied to, and its arguments."""
        name = self.rng.choice(list(table))
        kind, _, choices = table[name].partition(" ")
        return name, self.of(kind, depth), self.rng.choice(choices.split("|"))

    def careful_operation(self, depth: int) -> str | None:
        """In the place of an operation that may fail; none: any other may stand here."""
        choice = self.rng.randrange(12)
        if choice <= 2:
            name, receiver, arguments = self.applied(CAREFUL_FILTERS, depth)
            self.note("filter " + name)
            return f"{receiver} | {name}" + (f"({arguments})" if arguments else "")
        if choice <= 4:
            name, receiver, arguments = self.applied(CAREFUL_TESTS, depth)
            self.note("test " + name)
            return f"{receiver} is {self.pick('', '', 'not ')}{name}" + (f"({arguments})" if arguments else "")
        if choice <= 7:
            name, receiver, arguments = self.applied(CAREFUL_METHODS, depth)
            self.note("method " + name)
            return f"{self.paren(receiver)}.{name}({arguments})"
        if choice <= 9:
            op = self.pick("+", "-", "*", "/", "//", "%", "**", "~", "<", "<=", ">", ">=", "in", "not in", "==", "!=", "and", "or")
            self.note("operator " + op)
            if op in ("/", "//", "%", "**"):
                return f"{self.of('num', depth)} {op} {self.pick('2', '3', '-1')}"
            if op in ("in", "not in"):
                kind = self.pick("str", "list")
                return f"{self.of('str', depth)} {op} {'s' if kind == 'str' else self.of('list', depth).replace(chr(39) + 'xyz' + chr(39), 'l')}"
            kind = "any" if op in ("~", "==", "!=", "and", "or") else "num" if op in ("-", "*") else self.pick("str", "num")
            if op in ("<", "<=", ">", ">=", "==", "!=") and self.rng.random() < 0.15:
                self.note("chained comparison")
                return f"{self.of(kind, depth)} {op} {self.of(kind, depth)} {op} {self.of(kind, depth)}"
            return f"{self.of(kind, depth)} {op} {self.of(kind, depth)}"
        if choice == 10:
            sign = self.pick("-", "+")
            self.note("sign " + sign)
            return sign + self.of("num", depth)
        return None

    def argument(self, kind: str, depth: int) -> str:
        r = self.rng
        if r.random() < 0.07:
            return self.expression(depth - 1)
        if kind == "n":
            return r.choice(["0", "1", "2", "3", "-1", "4", "10", "n"])
        if kind == "b":
            return r.choice(["true", "false"])
        if kind == "s":
            return self.string()
        if kind == "c":
            return r.choice(["'*'", "'é'", "' '"])
        if kind == "key":
            return r.choice(["'role'", "'content'", "'a'", "'z'", "0", "'x.y'", "'1'", "'y.0.z'", "1"])
        if kind == "by":
            return r.choice(["'key'", "'value'"])
        if kind == "how":
            return r.choice(["'common'", "'ceil'", "'floor'"])
        if kind == "indent":
            return r.choice(["none", "0", "1", "2", "4", "'\\t'", "-1"])
        if kind == "seps":
            return r.choice(["none", "(',', ':')", "[', ', ' : ']", "',:'"])
        if kind == "fn":
            return r.choice(["'upper'", "'length'", "'trim'", "'string'", "'tojson'", "'first'", "'int'", "'default'", "'nonesuch'", "'list'"])
        if kind == "test":
            return r.choice(["'equalto'", "'defined'", "'string'", "'in'", "'odd'", "'none'", "'mapping'", "'gt'", "'nonesuch'", "'number'"])
        return self.expression(depth - 1)

    def arguments(self, kinds: list[str], depth: int, names: list[str] | None = None) -> str:
        out = []
        for i, kind in enumerate(kinds):
            if self.rng.random() < 0.35 + 0.25 * (i == 0 and kind in ("s", "key", "fn", "test")) * 2:
                out.append(self.argument(kind, depth))
            else:
                break
        if names and self.rng.random() < 0.2:
            name = self.rng.choice(names)
            out.append(f"{name}={self.argument('v', depth)}")
        return ", ".join(out)

    def atom(self) -> str:
        r = self.rng.random()
        if self.constant:
            self.note("atom of a constant")
            return self.pick(self.string(), self.string(), self.rng.choice(NUMBERS), "1e400", "('nan' | float)", "none", "true", "[]", "{}", "()")
        if r < 0.45:
            self.note("name")
            return self.rng.choice(self.names)
        if r < 0.65:
            self.note("string")
            return self.string()
        if r < 0.78:
            self.note("number")
            return self.rng.choice(NUMBERS)
        if r < 0.84:
            self.note("constant")
            return self.pick("true", "false", "none", "True", "None")
        if r < 0.88 and self.namespaces:
            self.note("namespace attribute")
            return self.rng.choice(self.namespaces) + "." + self.pick("a", "v", "zz")
        if self.loops:
            name = self.rng.choice(LOOP)
            self.note("loop." + name.partition("(")[0])
            return "loop." + name
        return self.rng.choice(self.names)

    def expression(self, depth: int) -> str:
        if depth <= 0:
            return self.atom()
        if not self.careful and not self.constant and self.rng.random() < 0.06:
            self.constant = True
            text = self.expression(depth)
            self.constant = False
            if self.rng.random() < 0.5:
                op = self.pick("and", "or", "+", "~", "==")
                self.note("constant beside another")
                text = f"({text}) {op} {self.expression(depth - 1)}"
            return text
        if self.careful and self.rng.random() < 0.85:
            operation = self.careful_operation(depth)
            if operation is not None:
                return operation
        choice = self.rng.randrange(17, 23) if self.careful else self.rng.randrange(24)
        e = lambda: self.expression(depth - 1)  # noqa: E731
        if choice <= 2:
            op = self.pick("+", "-", "*", "/", "//", "%", "~", "+", "~", "**")
            self.note("operator " + op)
            right = self.pick("0", "1", "2", "-1", "0.5") if op == "**" else e()
            return f"{self.paren(e())} {op} {self.paren(right)}"
        if choice <= 4:
            op = self.pick("==", "!=", "<", "<=", ">", ">=", "in", "not in")
            self.note("operator " + op)
            chain = f" {self.pick('==', '<', 'in')} {self.paren(e())}" if self.rng.random() < 0.1 else ""
            if chain:
                self.note("chained comparison")
            return f"{self.paren(e())} {op} {self.paren(e())}{chain}"
        if choice == 5:
            op = self.pick("and", "or")
            self.note("operator " + op)
            return f"{e()} {op} {e()}"
        if choice == 6:
            self.note("not")
            return f"not {self.paren(e())}"
        if choice == 7:
            sign = self.pick("-", "+")
            self.note("sign " + sign)
            return sign + self.paren(e())
        if choice <= 11:
            name = self.rng.choice(list(FILTERS))
            self.note("filter " + name)
            keyword = {"tojson": ["ensure_ascii", "indent", "separators", "sort_keys"], "map": ["attribute", "default"], "default": ["boolean"],
                       "join": ["attribute"], "sort": ["attribute", "reverse"], "indent": ["first", "blank"], "groupby": ["default"],
                       "sum": ["start", "attribute"], "unique": ["attribute"], "dictsort": ["reverse", "by"]}.get(name)
            arguments = self.arguments(FILTERS[name], depth, keyword)
            return f"{self.paren(e())} | {name}" + (f"({arguments})" if arguments or self.rng.random() < 0.1 else "")
        if choice <= 13:
            name = self.rng.choice(list(TESTS))
            self.note("test " + name)
            arguments = self.arguments(TESTS[name], depth)
            return f"{self.paren(e())} is {self.pick('', '', 'not ')}{name}" + (f"({arguments})" if arguments else "")
        if choice <= 16:
            name = self.rng.choice([*METHODS, "append", "pop", "update"])  # these are in no careful program
            self.note("method " + name)
            receiver = self.paren(e())
            if name == "format":
                receiver = json.dumps(self.rng.choice(BRACES))
            if name == "join":
                receiver = self.string()
            return f"{receiver}.{name}({self.arguments(METHODS[name], depth)})"
        if choice == 17:
            self.note("attribute")
            object_ = self.of("dict", depth) if self.careful else self.paren(e())
            return f"{object_}.{self.pick('a', 'role', 'content', 'items', 'x', 'real', '0', 'keys', 'B')}"
        if choice == 18:
            self.note("item")
            if self.careful:
                return self.pick(f"{self.of('dict', depth)}[{self.of('str', depth)}]", f"{self.of('list', depth)}[{self.of('int', depth)}]")
            return f"{self.paren(e())}[{e()}]"
        if choice == 19:
            self.note("slice")
            part = lambda: self.pick("", "", "1", "-1", "0", "2", "5", "n", "none")  # noqa: E731
            step = self.pick("", "", ":", ":-1", ":2", ":" + (part() if not self.careful else "3"))
            sliced = self.of(self.pick("str", "list"), depth) if self.careful else self.paren(e())
            return f"{sliced}[{part()}:{part()}{step}]"
        if choice == 20:
            otherwise = self.rng.random() < 0.8
            self.note("conditional" if otherwise else "conditional without else")
            return f"({e()} if {e()}" + (f" else {e()})" if otherwise else ")")
        if choice == 21:
            kind = self.pick("list", "tuple", "dict", "list")
            self.note("literal " + kind)
            if kind == "dict":
                return "{" + ", ".join(f"{self.pick(self.string(), '1', 'n', 'none')}: {e()}" for _ in range(self.rng.randrange(3))) + "}"
            items = ", ".join(e() for _ in range(self.rng.randrange(4)))
            return f"[{items}]" if kind == "list" else f"({items},)" if items else "()"
        if choice == 22:
            return self.call(depth)
        self.note("operator % on text")
        return json.dumps(self.rng.choice(FORMATS)) + " % " + self.paren(e())

    def call(self, depth: int) -> str:
        e = lambda: self.expression(depth - 1)  # noqa: E731
        choice = self.rng.randrange(7 if self.careful else 8)
        if choice <= 1 and self.macros:
            return self.macro_call(depth)
        if choice == 2:
            self.note("range")
            return f"range({self.pick('3', 'n', '2, 6', '5, 0, -2', self.of('int', depth) if self.careful else e())}) | list"
        if choice == 3:
            self.note("dict()")
            return f"dict({self.pick('', 'a=1', 'd', '[(1, 2)]', 'd, a=' + e())})"
        if choice == 4:
            self.note("strftime_now")
            return f"strftime_now({self.pick(chr(39) + '%Y-%m-%d' + chr(39), chr(39) + '%d %b %Y %H:%M' + chr(39), chr(39) + '%A %B %-d %j' + chr(39))})"
        if choice == 5:
            self.note("cycler")
            return f"cycler({self.pick('1', '1, 2', e())}){self.pick('.next()', '.current', '.reset()', '')}"
        if choice == 6:
            self.note("joiner")
            return f"joiner({self.pick('', self.string(), e())}){self.pick('()', '')}"
        self.note("raise_exception")
        return f"(raise_exception({e()}) if {e()} else {e()})"

    def macro_call(self, depth: int) -> str:
        e = lambda: self.expression(depth - 1)  # noqa: E731
        self.note("macro call")
        arguments = [e() for _ in range(self.rng.randrange(3))]
        if self.rng.random() < 0.3:
            self.note("macro call with a keyword")
            arguments.append(f"{self.pick('p', 'q', 'w')}={e()}")
        if self.rng.random() < 0.25:
            self.note("macro call with *")
            arguments.append("*" + self.pick("[]", "[1]", "'x'", "l[:1]" if self.careful else self.paren(e())))
        if self.rng.random() < 0.25:
            self.note("macro call with **")
            arguments.append("**" + self.pick("{}", "{'q': 1}", "dict(p=2)", "d" if self.careful else self.paren(e())))
        return f"{self.rng.choice(self.macros)}({', '.join(arguments)})"

    def paren(self, text: str) -> str:
        return f"({text})" if any(c in text for c in " -+") and not (text[0] in "\"'" and text.count(text[0]) == 2) else text

    def tag(self, body: str) -> str:
        begin, end = self.pick("", "", "-", "+"), self.pick("", "", "-")
        for mark in ("{%" + begin if begin else "", end and end + "%}"):
            if mark:
                self.note(mark)
        return "{%" + begin + " " + body + " " + end + "%}"

    def text(self) -> str:
        return self.pick("", "x", "\n", " ", "  \n", "a\n  ", "\n\n", "é ", "<|im_start|>", "\t")

    def block(self, depth: int) -> str:
        saved = (list(self.names), list(self.macros), list(self.namespaces))
        out = "".join(self.text() + self.statement(depth - 1) for _ in range(self.rng.randrange(1, 4))) + self.text()
        if self.rng.random() < 0.5:
            self.names, self.macros, self.namespaces = saved
        return out

    def statement(self, depth: int) -> str:
        e = lambda d=2: self.expression(self.rng.randrange(d + 1))  # noqa: E731
        choice = self.rng.randrange(20) if depth > 0 else self.rng.randrange(7)
        if choice <= 3:
            self.note("output")
            begin, end = self.pick("", "", "-"), self.pick("", "", "-")
            if begin or end:
                self.note("output with -")
            return "{{" + begin + " " + e(3) + " " + end + "}}"
        if choice == 4:
            name = self.pick("v1", "v2") if self.careful else self.pick("v1", "v2", "s", "x", "messages")
            two = self.rng.random() >= 0.85
            self.note("set of two names" if two else "set")
            out = self.tag(f"set {name}, v3 = {e()}, {e()}" if two else f"set {name} = {e()}")
            self.names.append(name)
            return out
        if choice == 5:
            if self.namespaces and self.rng.random() < 0.7:
                self.note("set attribute")
                return self.tag(f"set {self.rng.choice(self.namespaces)}.{self.pick('a', 'v')} = {e()}")
            self.note("namespace")
            self.namespaces.append("ns")
            return self.tag(f"set ns = namespace({self.pick('', 'a=' + e(1), 'a=1, v=' + self.string(), 'd')})")
        if choice == 6:
            kind = self.rng.randrange(4)
            if kind == 0 and self.loops:
                word = self.pick("break", "continue")
                self.note(word)
                return self.tag(f"if {e(1)}") + self.tag(word) + self.tag("endif")
            if kind == 1:
                self.note("raw")
                return "{% raw %}{{ x }}" + self.text() + "{% endraw %}"
            begin, end = self.pick("", "-"), self.pick("", "-")
            self.note("comment with -" if begin or end else "comment")
            return "{#" + begin + " c " + end + "#}"
        if choice <= 9:
            self.note("if")
            out = self.tag(f"if {e()}") + self.block(depth)
            for _ in range(self.rng.randrange(2)):
                self.note("elif")
                out += self.tag(f"elif {e()}") + self.block(depth)
            if self.rng.random() < 0.5:
                self.note("else")
                out += self.tag("else") + self.block(depth)
            return out + self.tag("endif")
        if choice <= 13:
            return self.loop(depth)
        if choice == 14:
            self.note("set block")
            name = self.pick("v1", "blk", "x")
            chain = self.pick("", "", " | upper", " | trim | length")
            if chain:
                self.note("set block with a filter")
            out = self.tag(f"set {name}{chain}") + self.block(depth) + self.tag("endset")
            self.names.append(name)
            return out
        if choice <= 16:
            self.note("macro")
            name = self.pick("mac", "mic")
            signature = self.pick("", "p", "p, q=1", "p=n, q=p", "p, q, w='w'")
            loops, self.loops = self.loops, 0
            held = list(self.names)
            implicit = self.rng.random() < 0.3
            if implicit:
                self.note("varargs, kwargs")
            self.names += ["p", "q", "varargs", "kwargs", "caller"] if implicit else ["p", "q"]
            body = self.block(depth)
            if self.rng.random() < 0.4:
                self.note("caller")
                self.callers.append(name)
                body += "{{ caller(" + self.pick("", "1", "p") + ") }}"
            self.names = held
            self.loops = loops
            out = self.tag(f"macro {name}({signature})") + body + self.tag("endmacro")
            self.macros.append(name)
            if self.rng.random() < 0.7:
                out += "{{ " + self.macro_call(1) + " }}"
            return out
        if choice == 17:
            self.note("filter block")
            return self.tag(f"filter {self.pick('upper', 'trim', 'replace(s, t)', 'indent(2)', 'length')}") + self.block(depth) + self.tag("endfilter")
        if choice == 18:
            before = ""
            if self.careful and not self.callers:
                self.note("macro")
                before = self.tag("macro cal(p, q=1)") + self.text() + "{{ p }}{{ caller(q) }}" + self.tag("endmacro")
                self.callers.append("cal")
            if self.callers or self.macros and self.rng.random() < 0.6:
                self.note("call block")
                loops, self.loops = self.loops, 0
                called = self.rng.choice(self.callers if self.callers and self.rng.random() < 0.7 else self.macros or self.callers)
                signature = self.pick("(u)", "(u, w=2)") if self.careful else self.pick("", "(u)", "(u, w=2)")
                out = before + self.tag(f"call{signature} {called}({self.pick('', e(1))})") + self.block(depth)
                self.loops = loops
                return out + self.tag("endcall")
            self.note("generation")
            loops, self.loops = self.loops, 0
            out = self.tag("generation") + self.block(depth) + self.tag("endgeneration")
            self.loops = loops
            return out
        self.note("with")
        name = self.pick("x", "y") if self.careful else self.pick("x", "s", "y")
        held = list(self.names)
        self.names.append(name)
        out = self.tag(f"with {name} = {e()}{self.pick('', ', y = ' + e(1))}") + self.block(depth) + self.tag("endwith")
        self.names = held
        return out

    def loop(self, depth: int) -> str:
        self.note("for")
        target = self.pick("x", "x", "x", "k, v") if self.careful else self.pick("x", "x", "x", "k, v", "s")
        if not self.careful:
            source = self.pick("l", "m", "messages", "d.items()", "range(n)", "s", "mixed", "missing", "l | sort", "d", "m | map(attribute='role')",
                               "[1, [2, 3]]", self.expression(2))
        elif "," in target:
            source = self.pick("d.items()", "d | items", "deep.items()", "[(1, 2), 'xy']")
        else:
            source = self.pick("l", "m", "messages", "range(n)", "s", "mixed", "l | sort", "d", "m | map(attribute='role')")
        held = list(self.names)
        self.names += target.split(", ")
        test = f" if {self.expression(1)}" if self.rng.random() < 0.2 else ""
        if test:
            self.note("for with a condition")
        if "," in target:
            self.note("for with two names")
        recursive = " recursive" if self.rng.random() < 0.08 else ""
        self.loops += 1
        body = self.block(depth)
        if recursive:
            self.note("recursive")
            body += "{{ loop(x) if x is iterable and x is not string and loop.depth < 3 }}"
        self.loops -= 1
        if target != "s":
            self.names = held
        out = self.tag(f"for {target} in {source}{test}{recursive}") + body
        if self.rng.random() < 0.3:
            self.note("for else")
            out += self.tag("else") + self.block(depth)
        return out + self.tag("endfor")


class Values:
    """Random values of a context."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def text(self) -> str:
        return "".join(self.rng.choice(STRINGS) for _ in range(self.rng.choice([1, 1, 1, 2, 3])))

    def number(self) -> int | float:
        return self.rng.choice([0, 1, -1, 2, 3, 7, 255, 2**31, 2**63, -(2**63), 10**25, 0.0, -0.0, 0.5, -2.5, 1e16, 1e-7, 1.0, 1e300, 123456.789])

    def any(self, depth: int):
        kind = self.rng.randrange(9 if depth > 0 else 6)
        if kind <= 2:
            return self.text()
        if kind == 3:
            return self.number()
        if kind <= 5:
            return self.rng.choice([None, True, False])
        return self.list(depth - 1) if kind <= 7 else self.dict(depth - 1)

    def list(self, depth: int) -> list:
        same = self.rng.randrange(4)
        make = [lambda: self.any(depth), self.text, self.number, lambda: self.dict(depth)][same]
        return [make() for _ in range(self.rng.randrange(5))]

    def dict(self, depth: int) -> dict:
        names = ["a", "B", "x", "y", "role", "content", "items", "keys", "0", "", "é", "k", "n", "z", "type", "text", "_u"]
        return {name: self.any(depth) for name in self.rng.sample(names, self.rng.randrange(5))}

    def message(self) -> dict:
        content = self.rng.choice([self.text(), self.text(), None, [{"type": "text", "text": self.text()}], self.any(1)])
        message = {"role": self.rng.choice(["system", "user", "assistant", "tool", self.text()]), "content": content}
        if self.rng.random() < 0.2:
            message["tool_calls"] = [{"function": {"name": self.text(), "arguments": self.dict(1)}}]
        return message

    def context(self, careful: bool) -> dict:
        """CONTEXT, many of its values others; where programs are careful, of the same kinds."""
        context = {}
        for name, value in CONTEXT.items():
            if self.rng.random() < 0.5:
                context[name] = value
            elif name == "messages":
                context[name] = [self.message() for _ in range(self.rng.randrange(1 if careful else 0, 4))]
            elif not careful:
                if self.rng.random() < 0.9:  # else it is absent
                    context[name] = self.any(3)
            elif isinstance(value, bool) or value is None:
                context[name] = value
            elif isinstance(value, str):
                context[name] = self.text()
            elif isinstance(value, float):
                context[name] = self.rng.choice([2.5, -0.5, 0.0, 1e16, 7.0])
            elif name == "n":
                context[name] = self.rng.randrange(6)
            elif name == "l":
                context[name] = [self.rng.choice([3, 1, 2, 2.5, -7]) for _ in range(self.rng.randrange(1, 6))]
            elif name == "d":
                context[name] = {**value, **self.dict(1)}
            else:
                context[name] = value
        return context


class Timeout(BaseException):
    pass


def on_alarm(*_: object) -> None:
    raise Timeout


def reference(template: str, context: dict) -> dict:
    frame = {"tools": None, "documents": None, **copy.deepcopy(context)}  # a list changes under `indent`
    signal.setitimer(signal.ITIMER_REAL, 2.0)
    try:
        return {"ok": _compile_jinja_template.__wrapped__(template).render(**frame)
                if hasattr(_compile_jinja_template, "__wrapped__") else _compile_jinja_template(template).render(**frame)}
    except Timeout:
        return {"skip": "slow"}
    except RecursionError:
        return {"skip": "recursion"}
    except MemoryError:
        return {"skip": "memory"}
    except Exception as error:  # the class is the expected value
        return {"raises": type(error).__name__, "message": str(error)[:200]}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def ours(slm: str, templates: list[str], contexts: list[dict]) -> list[dict]:
    records = [{"template": t, "context": c, "clock": CLOCK} for t, c in zip(templates, contexts, strict=True)]
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
        file.write("unused")
        file.flush()
        done = subprocess.run([slm, "render", file.name, "--batch"], input="".join(json.dumps(r) + "\n" for r in records),
                              capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


SYNTAX = {"TemplateSyntaxError", "SyntaxError"}


def verdict(expected: dict, answer: dict) -> str:
    if "skip" in expected or " at 0x" in expected.get("ok", ""):
        return "skipped"
    error = answer.get("error")
    if error is not None and error["code"] in NAMED:
        return "refused by name"
    if "ok" in expected:
        return "same" if answer.get("text") == expected["ok"] else "DIFFERENT"
    if error is None:
        return "DIFFERENT"
    if error["code"] == "TPL-SYNTAX":
        return "same" if expected["raises"] in SYNTAX else "DIFFERENT"
    if error["code"] == "TPL-RAISED":
        return "same" if expected["raises"] == "TemplateError" else "DIFFERENT"
    return "same" if error["message"].startswith(expected["raises"] + ": ") else "DIFFERENT"


def freeze_clock() -> None:
    import datetime as real
    import transformers.utils.chat_template_utils as module

    class Frozen(real.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromisoformat(CLOCK)

    module.datetime = Frozen


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slm", required=True)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=400)
    parser.add_argument("--each", type=int, default=0, help="in how many compared programs each construct must have stood, a tenth of them with a text")
    parser.add_argument("--show", type=int, default=12)
    parser.add_argument("--dump", type=pathlib.Path)
    args = parser.parse_args()
    signal.signal(signal.SIGALRM, on_alarm)
    sys.setrecursionlimit(3000)
    freeze_clock()
    deadline = time.monotonic() + args.seconds
    totals: collections.Counter = collections.Counter()
    # By how many programs each construct was drawn into: any, those whose answers were compared, those of a text.
    drawn: collections.Counter = collections.Counter()
    compared: collections.Counter = collections.Counter()
    rendered: collections.Counter = collections.Counter()
    seed = args.seed
    shown = 0
    found = []
    while time.monotonic() < deadline:
        templates, contexts, parts = [], [], []
        for _ in range(args.batch):
            rng = random.Random(seed)
            seed += 1
            parts.append(collections.Counter())
            writer = Writer(rng, parts[-1])
            contexts.append(Values(rng).context(writer.careful))
            if rng.random() < 0.5:
                templates.append("{{ " + writer.expression(rng.randrange(1, 4)) + " }}")
            else:
                templates.append("".join(writer.text() + writer.statement(2) for _ in range(rng.randrange(1, 5))) + writer.text())
        for template, context, part, answer in zip(templates, contexts, parts, ours(args.slm, templates, contexts), strict=True):
            expected = reference(template, context)
            kind = verdict(expected, answer)
            totals[kind] += 1
            drawn.update(part.keys())
            if kind == "same":
                compared.update(part.keys())
                if "ok" in expected:
                    rendered.update(part.keys())
            if kind == "DIFFERENT":
                found.append({"template": template, "context": context, "expected": expected, "answer": answer})
                if shown < args.show:
                    shown += 1
                    print(json.dumps(template), "\n   context:  ", json.dumps(context), "\n   reference:", json.dumps(expected)[:300], "\n   slm:      ",
                          json.dumps(answer.get("text", answer.get("error", {}).get("message")))[:300])
    print(dict(totals), "seeds", args.seed, "to", seed - 1)
    few = {name: (compared[name], rendered[name]) for name in drawn
           if compared[name] < args.each or rendered[name] < args.each / 10 and name not in RAISING}
    rarest, least = min(((name, rendered[name]) for name in drawn if name not in RAISING), key=lambda item: item[1])
    print(f"figures: {sum(totals.values())} programs, {totals['same']} same, {totals['refused by name']} refused by name, "
          f"{totals['DIFFERENT']} different; {len(drawn)} constructs, the rarest in a text ({rarest}) {least} times")
    if few:
        print(f"in fewer than {args.each} programs (compared, with a text):", few)
    if args.dump:
        args.dump.write_text("".join(json.dumps(row) + "\n" for row in found))
    return 1 if totals["DIFFERENT"] or not totals["same"] or few else 0


if __name__ == "__main__":
    sys.exit(main())
