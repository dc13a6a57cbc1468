#!/usr/bin/env python3
"""Writes vectors/chat/probes.jsonl: small templates, contexts, and what the reference renders.

The reference is Transformers' own template environment over Jinja2; run with the interpreter of the
oracle's locked environment. Each row: name, template, context, and `ok` (text) or `raises` (class).
The first row names the versions.
"""
import json
import pathlib
import sys

import jinja2
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

USER = {"messages": [{"role": "user", "content": "Hi"}]}
TALK = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " caf\u00e9 "},
                     {"role": "assistant", "content": "one\ntwo"}, {"role": "user", "content": ""}]}
DATA = {"messages": [], "n": 7, "x": -3, "f": 1.0, "big": 1e16, "small": 1e-05, "half": 0.5, "t": True, "none": None,
        "s": "a\u00e9\u4e16\U0001f600b", "empty": "", "list": [1, "two", None, [3.5]], "obj": {"b": 1, "a": [2, {}]}}

PROBES = [
    ("ws.plain", "a\n", USER), ("ws.two_newlines", "a\n\n", USER), ("ws.crlf", "a\r\nb\rc", USER),
    ("ws.trim_block", "{% if true %}\nx\n{% endif %}\ny", USER), ("ws.lstrip_block", "  {% if true %}x{% endif %}", USER),
    ("ws.lstrip_not_expression", "  {{ 1 }}", USER), ("ws.lstrip_text_before", "a  {% if true %}x{% endif %}", USER),
    ("ws.plus", "  {%+ if true %}\nx{% endif +%}\ny", USER), ("ws.minus", "a \n {%- if true -%} \n x {%- endif -%} b", USER),
    ("ws.minus_expression", "a \u00a0\n {{- 1 -}} \u2003\n b", USER), ("ws.comment", "a\n  {# c #}\nb{#- d -#} e", USER),
    ("ws.comment_plus", "a{# c +#}\nb", USER), ("ws.after_expression", "{{ 1 }}\n  {% if true %}x{% endif %}", USER),
    ("ws.tag_after_tag", "{% if true %}\n  {% if true %}\n    x\n  {% endif %}\n{% endif %}\n", USER),
    ("str.escapes", r"{{ 'a\n\t\\\'\"\x41\u00e9\q' }}", USER), ("str.join", "{{ 'a' 'b' \"c\" }}", USER),
    ("str.newline", "{{ 'a\nb' }}", USER),
    ("print.none", "{{ none }}|{{ true }}|{{ false }}|{{ missing }}|{{ f }}|{{ big }}|{{ small }}|{{ half }}", DATA),
    ("print.repr", "{{ list }}|{{ obj }}|{{ (1,) }}|{{ ['a\\'b', \"q\"] }}", DATA),
    ("expr.precedence", "{{ 1 + 2 * 3 }}|{{ 'a' ~ 1 + 2 }}|{{ -n + 1 }}|{{ not n == 7 }}|{{ 7 % 3 }}|{{ -7 % 3 }}", DATA),
    ("expr.and_or", "{{ empty or 'x' }}|{{ n and 's' }}|{{ none or 0 }}", DATA),
    ("expr.inline_if", "{{ 'a' if n > 3 else 'b' }}|{{ 'a' if n > 9 }}|", DATA),
    ("expr.equality", "{{ 1 == true }}|{{ 1 == 1.0 }}|{{ '' == false }}|{{ [1] == [1.0] }}|{{ none == missing }}", DATA),
    ("expr.in", "{{ 'two' in list }}|{{ 'a' in s }}|{{ 'b' in obj }}|{{ 'z' not in obj }}|{{ 1 in missing }}", DATA),
    ("expr.compare", "{{ n < 8 }}|{{ n <= 7 }}|{{ 'a' < 'b' }}|{{ x >= 0 }}", DATA),
    ("expr.order_error", "{{ 'a' < 1 }}", DATA), ("expr.add_none", "{{ 'a' + none }}", DATA),
    ("expr.add_missing", "{{ 'a' + missing }}", DATA), ("expr.concat_missing", "{{ 'a' ~ missing ~ none }}", DATA),
    ("expr.list_add", "{{ (list + ['z']) | length }}", DATA), ("expr.repeat", "{{ 'ab' * 3 }}|{{ 2 * 'c' }}|{{ 'x' * -1 }}", DATA),
    ("access.missing_key", "{{ obj.zzz }}|{{ obj['zzz'] }}|{{ list[9] }}", DATA),
    ("access.missing_of_missing", "{{ missing.a }}", DATA), ("access.none_attribute", "{{ none.a }}|", DATA),
    ("access.none_attribute_twice", "{{ none.a.b }}", DATA), ("access.negative", "{{ list[-1] }}|{{ s[-1] }}|{{ s[1] }}", DATA),
    ("slice.list", "{{ list[1:] | length }}|{{ list[::-1][0] }}|{{ list[:-1] | length }}|{{ list[5:] | length }}", DATA),
    ("slice.string", "{{ s[1:3] }}|{{ s[::-1] }}|{{ s[:2] }}|{{ s[-2:] }}", DATA), ("slice.none", "{{ list[2][1:] }}", DATA),
    ("for.loop_object", "{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
     "{{ loop.revindex }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}", USER),
    ("for.else", "{% for x in [] %}a{% else %}b{% endfor %}|{% for x in missing %}a{% else %}c{% endfor %}", USER),
    ("for.filter", "{% for x in [1,2,3,4] if x % 2 == 0 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}", USER),
    ("for.unpack", "{% for k, v in obj.items() %}{{ k }}={{ v }};{% endfor %}", DATA),
    ("for.unpack_error", "{% for a, b in [1] %}{% endfor %}", USER), ("for.none", "{% for a in none %}{% endfor %}", USER),
    ("for.break", "{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}", USER),
    ("for.nested", "{% for x in [1,2] %}{% for y in [3,4] %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }}{% endfor %}", USER),
    ("scope.set_in_loop", "{% set a = 1 %}{% for x in [1,2] %}{{ a }}{% set a = 5 %}{{ a }}{% endfor %}{{ a }}", USER),
    ("scope.set_in_if", "{% if true %}{% set a = 2 %}{% endif %}{{ a }}", USER),
    ("scope.namespace", "{% set ns = namespace(found=false, n=0) %}{% for x in [1,2] %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}{{ ns.found }}{{ ns.zzz }}", USER),
    ("scope.namespace_error", "{% set d = {} %}{% set d.x = 1 %}", USER),
    ("test.kinds", "{% for v in [1, 1.5, 'a', none, true, [], {}, (1,2)] %}{{ v is number }}{{ v is string }}{{ v is none }}{{ v is boolean }}"
     "{{ v is mapping }}{{ v is sequence }}{{ v is iterable }}{{ v is integer }}{{ v is float }} {% endfor %}", USER),
    ("test.missing", "{{ missing is defined }}{{ missing is undefined }}{{ missing is iterable }}{{ missing is sequence }}{{ missing is not none }}", USER),
    ("test.true", "{{ true is true }}{{ 1 is true }}{{ false is false }}{{ 3 is odd }}{{ 4 is even }}{{ 2 is eq 2 }}{{ 2 is in [2] }}", USER),
    ("filter.trim", "[{{ ' \u00a0a\u2028\x1f ' | trim }}]", USER), ("filter.trim_none", "{{ none | trim }}|{{ missing | trim }}|", USER),
    ("filter.length", "{{ s | length }}|{{ missing | length }}|{{ obj | length }}", DATA), ("filter.length_none", "{{ none | length }}", DATA),
    ("filter.default", "{{ missing | default('d') }}|{{ none | default('d') }}|{{ none | default('d', true) }}|{{ '' | d('e', boolean=true) }}", USER),
    ("filter.join", "{{ ['a', 1, none] | join(', ') }}|{{ 'abc' | join('-') }}|{{ [] | join }}", USER),
    ("filter.case", "{{ 'aBc' | upper }}{{ 'aBc' | lower }}{{ missing | upper }}", USER),
    ("filter.first_last", "{{ [1,2] | first }}{{ [1,2] | last }}{{ [] | first }}{{ 'xyz' | last }}", USER),
    ("filter.items", "{% for k, v in obj | items %}{{ k }}{% endfor %}", DATA), ("filter.int", "{{ '12' | int }}{{ none | int }}", USER),
    ("filter.string", "{{ (1 | string) + 'a' }}", USER), ("filter.replace", "{{ 'aXbX' | replace('X', '--') }}", USER),
    ("tojson.values", "{{ obj | tojson }}|{{ list | tojson }}|{{ f | tojson }}|{{ big | tojson }}|{{ small | tojson }}|{{ s | tojson }}", DATA),
    ("tojson.escapes", "{{ '<&>\\'\"\\\\\\n\\t\\x01\\x7f\\u2028' | tojson }}", USER),
    ("tojson.indent", "{{ obj | tojson(indent=2) }}|{{ {} | tojson(indent=4) }}|{{ [1, []] | tojson(indent=1) }}", DATA),
    ("tojson.ascii", "{{ s | tojson(ensure_ascii=true) }}|{{ s | tojson(true) }}", DATA), ("tojson.missing", "{{ missing | tojson }}", USER),
    ("method.strip", "[{{ ' a '.strip() }}][{{ 'xxaxx'.strip('x') }}][{{ '\n\na\n'.lstrip('\n') }}][{{ 'a\t '.rstrip() }}]", USER),
    ("method.split", "{{ 'a b  c'.split() }}|{{ 'a b  c'.split(' ') }}|{{ 'a--b--c'.split('--', 1) }}|{{ ''.split('x') }}|{{ ''.split() }}", USER),
    ("method.split_empty", "{{ 'a'.split('') }}", USER),
    ("method.affix", "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'bc')) }}{{ 'abc'.startswith('') }}", USER),
    ("method.affix_error", "{{ 'abc'.startswith(1) }}", USER),
    ("method.case_replace", "{{ 'aB'.upper() }}{{ 'aB'.lower() }}{{ 'aXbX'.replace('X', 'yy') }}", USER),
    ("method.obj", "{{ obj.get('b') }}|{{ obj.get('z') }}|{{ obj.get('z', 3) }}|{{ obj.keys() | list }}|{{ obj.values() | list }}", DATA),
    ("method.of_missing", "{{ missing.strip() }}", USER), ("method.of_none", "{{ none.strip() }}", USER),
    ("function.raise", "{{ raise_exception('No ' ~ messages[0].role) }}", USER),
    ("function.raise_in_branch", "{% if messages[0].role != 'user' %}{{ raise_exception('x') }}{% endif %}ok", USER),
    ("function.range", "{% for i in range(2, 8, 3) %}{{ i }}{% endfor %}{{ range(3) | length }}{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}", USER),
    ("fuzz.filter_block_of_a_number", "{% filter length %}abc{% endfilter %}", USER),
    ("fuzz.call_block_of_a_range", "{% call range(3) %}{% endcall %}", USER),
    ("fuzz.indent_of_a_list", "{{ [1] | indent }}", USER),
    ("fuzz.reverse_of_failing_items", "{{ 'abc' | items | reverse }}", USER),
    ("fuzz.constant_decides_or", "{{ true or messages | unheard_of }}", USER),
    ("fuzz.constant_does_not_decide", "{{ false or messages | unheard_of }}", USER),
    ("fuzz.unknown_filter_in_if", "{% if false %}{{ 1 | unheard_of }}{% endif %}x", USER),
    ("fuzz.unknown_filter_runs", "{% if true %}{{ 1 | unheard_of }}{% endif %}x", USER),
    ("fuzz.else_after_break", "{% for x in [1] %}{% break %}{% else %}else{% endfor %}", USER),
    ("fuzz.else_after_continue", "{% for x in [1, 2] %}{% continue %}{% else %}else{% endfor %}", USER),
    ("fuzz.set_survives_no_pass", "{% set a = 1 %}{% for x in [1, 2] %}{% if x == 2 %}{{ a }}{% endif %}{% set a = 7 %}{% endfor %}{{ a }}", USER),
    ("fuzz.loop_filter_sees_the_body", "{% set ns = namespace(n=0) %}{% for x in [1, 2, 3] if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ x }}{% endfor %}", USER),
    ("fuzz.macro_reads_later_name", "{% macro f() %}{{ late }}{% endmacro %}{{ f() }}{% set late = 1 %}{{ f() }}", USER),
    ("fuzz.macro_in_loop", "{% for x in [1, 2] %}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% endfor %}", USER),
    ("fuzz.macro_default_reads_argument", "{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3) }}", USER),
    ("fuzz.caller", "{% macro f(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) f(5) %}{{ y }}{% endcall %}", USER),
    ("fuzz.varargs", "{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=3) }}", USER),
    ("fuzz.recursive", "{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is iterable else x }}{{ loop.depth }}{% endfor %}", USER),
    ("fuzz.generator_once", "{% set g = [1, 2] | map('string') %}{{ g | list }}{{ g | list }}", USER),
    ("fuzz.generator_to_json", "{{ [1] | map('string') | tojson }}", USER),
    ("fuzz.markup_plus", "{{ '<' | safe + '&' }}{{ '<' | safe ~ '&' }}{{ ['<' | safe] }}", USER),
    ("fuzz.mutator", "{{ [].append(1) }}", USER), ("fuzz.dict_update", "{{ {}.update({}) }}", USER),
    ("fuzz.big", "{{ 2 ** 200 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 / 2 }}|{{ 10 ** 20 / 3 }}|{{ 1e308 * 10 }}", USER),
    ("fuzz.percent", "{{ '%5.2f|%-4d|%+d|%x|%s' % (1.005, 3, 4, 255, none) }}", USER),
    ("fuzz.braces", "{{ '{:>6}|{:,}|{0!r}'.format('a', 1234567) }}|{{ '{:08.3f}|{:+}'.format(3.14159, 2) }}", USER),
    ("fuzz.sigma", "{{ 'ΑΣ'.lower() }}{{ 'ΑΣ Α'.lower() }}{{ 'straße'.upper() }}{{ 'ǆ x'.title() }}{{ 'ﬁ'.capitalize() }}", USER),
    ("fuzz.split", "{{ ' a b  c '.split(none, 1) }}{{ ' a b  c '.rsplit(none, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}", USER),
    ("fuzz.repr", "{{ ['é', '\u200b', \"it's\", '\x7f', '🙂'] }}", USER),
    ("fuzz.bare_escape", "{{ '\\é\\q\\101' }}", USER),
    ("fuzz.raw", "a{%- raw -%} {{ x }} {%- endraw %}\nb", USER),
    ("fuzz.with", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", USER),
    ("fuzz.namespace_underscore", "{% set ns = namespace() %}{% set ns._a = 1 %}", USER),
    ("found.shortest_at_a_power_of_two", "{{ 2.0 ** -44 }}|{{ 5.684341886080802e-14 }}|{{ [2.0 ** -44] | tojson }}|{{ -(2.0 ** -44) }}", USER),
    ("found.floats", "{{ [1e22, 123456789012345680.0, 1e16, 9999999999999998.0, 0.0001, 0.00001234, 100.0, -0.0, 1.5e300] }}", USER),
    ("found.true_division_of_zero", "{{ 0 / -1 }}|{{ false / -2 }}|{{ 0 / 3 }}|{{ -0.0 / 3 }}", USER),
    ("found.delete_is_not_printable_ascii", "{{ 'a\x7fb' | tojson(true) }}|{{ 'a\x7fb' | tojson }}", USER),
    ("found.text_needs_no_indent", "{{ 'a' | tojson(indent=1.5) }}|{{ 'a' | tojson(separators=(1, 2)) }}", USER),
    ("found.list_needs_an_indent", "{{ [] | tojson(indent=1.5) }}", USER),
    ("found.splitlines_of_missing", "{{ 'a'.splitlines(missing) }}", USER),
    ("found.comment_begins_at_the_end", "a {#", USER), ("found.comment_begins_at_the_end_minus", "a {#-\n", USER),
    ("found.raw_begins_at_the_end", "a {% raw %}", USER),
    ("found.tuple_does_not_end_at_a_word", "{% for x in 1, recursive %}[{{ x }}]{% endfor %}", USER),
    ("found.own_attributes_of_missing", "{{ missing._undefined_name }}|{{ '{0.__class__}'.format(missing) }}|{{ '{0._undefined_obj}'.format(missing) }}", USER),
    ("found.infinite_literal", "{{ 1e400 }}|{{ [1e400] }}|{{ -1e400 }}|{{ 1e400 > 1 }}|{{ 1e-400 }}", USER),
    ("found.infinite_literal_as_a_value", "{% set x = 1e400 %}{{ x }}", USER),
    ("found.infinite_literal_in_a_sum", "{{ 1e400 + messages | length }}", USER),
    ("found.infinite_literal_that_does_not_fold", "{{ 1e400 | int }}", USER),
    ("found.tiny_literal", "{{ 0." + 400 * "0" + "1 }}", USER),
    ("found.filtered_loop_gives_tuples", "{% for k, v in messages if k %}{{ loop.nextitem }}{{ loop.previtem }}{{ loop.changed(v) }}{% endfor %}",
     {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}),
    ("found.filtered_loop_of_nested_targets", "{% for a, (b, c) in [[1, 'xy'], [2, 'zw']] if b %}{{ loop.nextitem }}|{{ [loop.previtem] }}{% endfor %}", USER),
    ("found.unfiltered_loop_keeps_items", "{% for a, (b, c) in [[1, 'xy'], [2, 'zw']] %}{{ loop.nextitem }}{% endfor %}", USER),
    ("found.failing_constant_decides_nothing", "{{ none[0][0] }}{{ 1 | list and 1.0 | nonesuch }}", USER),
    ("found.constant_test_decides", "{{ none[0][0] }}{{ 'x' is string or 1 is nonesuch }}", USER),
    ("found.constant_filter_decides", "{{ none[0][0] }}{{ ('a' | upper) or 1.0 | nonesuch }}", USER),
    ("found.written_iterator_decides", "{{ none[0][0] }}{{ ([1] | unique) or 1.0 | nonesuch }}", USER),
    ("found.kept_iterator_decides_nothing", "{{ none[0][0] }}{% set x = ([1] | unique) or 1.0 | nonesuch %}", USER),
    ("frame.defaults", "{{ tools }}|{{ documents }}|{{ bos_token is defined }}", USER),
    ("chat.chatml", "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}", dict(TALK, add_generation_prompt=True)),
    ("chat.bracketed", "{{ bos_token }}{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}[Q] {{ m.content | trim }} [/Q]"
     "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}", dict(TALK, bos_token="<s>", eos_token="</s>")),
    ("chat.role_error", "{% for m in messages %}{% if m.role not in ['user'] %}{{ raise_exception('Only user: ' + m.role) }}{% endif %}{% endfor %}", TALK),
]


def main() -> None:
    out = pathlib.Path(__file__).resolve().parent.parent / "vectors" / "chat" / "probes.jsonl"
    rows = [{"reference": f"jinja2 {jinja2.__version__}, transformers {transformers.__version__}"}]
    for name, template, context in PROBES:
        row = {"name": name, "template": template, "context": context}
        frame = {"tools": None, "documents": None, **context}
        try:
            row["ok"] = _compile_jinja_template(template).render(**frame)
        except Exception as error:  # the class is the expected value
            row["raises"] = type(error).__name__
            row["message"] = str(error)
        rows.append(row)
    text = "".join(json.dumps(row, ensure_ascii=True) + "\n" for row in rows)
    if "--check" in sys.argv:
        sys.exit(0 if out.read_text() == text else "vectors/chat/probes.jsonl is not what the reference renders")
    out.write_text(text)


if __name__ == "__main__":
    main()
