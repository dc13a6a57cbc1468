"""TPL-03: what the report says of a template is what the reference does with the same conversations.

Every published template (shared/vectors/templates) is asked twice: `slm render --explain --json`, and here by
rendering small conversations with the reference (Transformers' template environment over Jinja2). Run with the
interpreter of the oracle's locked environment. `--step N` takes every Nth template.
"""
import argparse
import collections
import datetime
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import jinja2
import transformers.utils.chat_template_utils as reference_module

TEMPLATES = pathlib.Path(__file__).resolve().parents[2].parent / "shared" / "vectors" / "templates" / "files"
CLOCK = "2026-11-30T12:00:00"
BOS, EOS = "\u2997bos\u2998", "\u2997eos\u2998"
ROLES = ["user", "assistant", "system", "developer", "tool", "function", "ipython", "context", "model", "critic"]
TOOL = {"type": "function", "function": {"name": "qtoolq", "description": "d", "parameters": {"type": "object", "properties": {}}}}
THOUGHT = "<think>\nqthinkq\n</think>\n\n"


class Frozen(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(CLOCK)


def word(i: int) -> str:
    return f"qz{i}zq"


def turns(*roles: str) -> list[dict]:
    return [{"role": role, "content": word(i)} for i, role in enumerate(roles)]


class Probe:
    """The reference's answers about one template."""

    def __init__(self, source: str):
        self.template = reference_module._compile_jinja_template(source)  # pylint: disable=protected-access

    def render(self, messages, generates=False, **more):
        frame = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": generates,
                 "bos_token": BOS, "eos_token": EOS, **more}
        try:
            return "rendered", self.template.render(**frame)
        except jinja2.exceptions.TemplateError as error:
            return ("raised" if type(error) is jinja2.exceptions.TemplateError else "failed"), ""
        except Exception:  # pylint: disable=broad-exception-caught  # whatever a template makes Python raise
            return "failed", ""

    def outcome(self, messages, words: int) -> tuple[str, str]:
        kind, text = self.render(messages)
        if kind == "rendered" and any(word(i) not in text for i in range(words)):
            kind = "dropped"
        return kind, text

    def report(self) -> dict:
        def of(*roles):
            return self.outcome(turns(*roles), len(roles))[0]

        answer: dict = {"roles": []}
        texts: dict[str, str] = {}
        for role in ROLES:
            kind, text = self.outcome(turns("user", "assistant", "user") if role == "user" else turns("user", role),
                                      3 if role == "user" else 2)
            row = {"role": role, "outcome": kind}
            if role != "user" and kind == "rendered":
                alias = next((name for name, other in texts.items() if other == text), None)
                if alias:
                    row["alias_of"] = alias
                texts[role] = text
            answer["roles"].append(row)
        kind, text = self.outcome(turns("user", "qroleq"), 2)
        answer["unknown_role"] = kind if kind in ("raised", "failed") else "copied" if "qroleq" in text \
            else "mapped" if word(1) in text else "dropped"
        with_system = of("system", "user")
        without, plain = self.outcome(turns("user"), 1)
        answer["system"] = "dropped" if with_system == "dropped" else "forbidden" if with_system != "rendered" \
            else "required" if without in ("raised", "failed") else "optional"
        answer["synthesizes_system"] = "system" in plain.translate({c: c + 32 for c in range(65, 91)})
        answer["two_systems"] = of("system", "system", "user")
        answer["two_users"] = of("user", "user")
        answer["two_assistants"] = of("user", "assistant", "assistant")
        answer["assistant_first"] = of("assistant", "user")
        answer["empty_content"] = self.outcome([{"role": "user", "content": ""}], 0)[0]
        answer["null_content"] = self.outcome(turns("user") + [{"role": "assistant", "content": None}], 1)[0]
        answer["no_messages"] = self.outcome([], 0)[0]
        padded = " \n" + word(0) + " \n"
        kind, text = self.outcome([{"role": "user", "content": padded}], 1)
        answer["trims_content"] = kind == "rendered" and padded not in text
        off, on = self.render(turns("user"))[1], self.render(turns("user"), True)[1]
        answer["generation_prefix_appends"] = on.startswith(off)
        answer["generation_prefix"] = on[len(off):] if on.startswith(off) else ""
        four = self.render(turns("user", "assistant", "user", "assistant"))[1]
        at = four.find(BOS)
        answer["bos"] = {"count": four.count(BOS), "offset": len(four[:at].encode()) if at >= 0 else 0}
        answer["eos"] = {"count": four.count(EOS), "last": four.endswith(EOS)}
        answer["uses_tools"] = "qtoolq" in self.render(turns("user"), True, tools=[TOOL])[1]
        answer["uses_documents"] = "qdocq" in self.render(turns("user"), True, documents=[{"title": "qdocq", "text": "qdocq"}])[1]
        thinking = turns("user", "assistant", "user")
        thinking[1]["content"] = THOUGHT + word(1)
        answer["keeps_thinking"] = "qthinkq" in self.render(thinking, True)[1]
        short, long = (self.render(thinking[:n])[1].encode() for n in (2, 3))
        answer["extends_prefix"] = not short or not long or long.startswith(short)
        answer["first_changed_byte"] = 0 if answer["extends_prefix"] else next(
            i for i, (a, b) in enumerate(itertools.zip_longest(short, long)) if a != b)
        return answer


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("slm")
    parser.add_argument("--step", type=int, default=1)
    args = parser.parse_args()
    if not TEMPLATES.exists():
        print("not-run: shared/vectors/templates is not beside this tree")
        return 0
    reference_module.datetime = Frozen
    different: collections.Counter[str] = collections.Counter()
    facts = n_templates = no_report = no_clock = 0
    with tempfile.NamedTemporaryFile("w", suffix=".json") as context:
        json.dump({"messages": turns("user"), "bos_token": "", "eos_token": ""}, context)
        context.flush()
        for file in sorted(TEMPLATES.iterdir())[::args.step]:
            done = subprocess.run([args.slm, "render", str(file), context.name, "--explain", "--json"],
                                  capture_output=True, text=True, check=False)
            answer = json.loads(done.stdout)
            probe = Probe(file.read_bytes().decode())
            if "error" in answer and probe.render(turns("user"), bos_token="", eos_token="")[0] != "rendered":
                no_report += 1  # a template that refuses a single user's turn
                continue
            if answer.get("error", {}).get("code") == "TPL-INPUT" and "date" in answer["error"]["message"]:
                no_clock += 1  # the command has no clock for one context
                continue
            n_templates += 1
            if "analysis" not in answer:
                different["no report"] += 1
                print(f"NO REPORT: {file.name}: {done.stdout[:200]}{done.stderr[:200]}")
                continue
            said = answer["analysis"]
            for row in said["roles"]:
                row.pop("message", None)
            for key, wanted in probe.report().items():
                facts += 1
                if said[key] != wanted:
                    different[key] += 1
                    print(f"DIFFERENT: {file.name}: {key}: slm {json.dumps(said[key])[:400]}, reference {json.dumps(wanted)[:400]}")
    print(f"figures: {n_templates} templates, {facts} facts, {no_report} without a report on both sides, {no_clock} need a clock,"
          f" {sum(different.values())} different {dict(different)}")
    return 1 if different or not n_templates else 0


if __name__ == "__main__":
    sys.exit(main())
