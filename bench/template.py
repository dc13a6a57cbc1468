#!/usr/bin/env python3
"""Chat templates against Jinja2, in turns in one run: `./dev bench template` (bench/README.md).

Every published template renders a conversation of 20 messages. Both sides hold the parsed context as values (a dict on
one, a chat::Context on the other); ours returns who owns which byte, and who wrote BOS, EOS and prefix, as well. Beside
it stands the ratio of the whole way: from the context's JSON text, to spans with the names of their owners on ours. A
template that refuses the conversation on both sides is left out; one that only one side refuses, or that gives another
text, ends the run. Where the package minijinja (Rust) can be imported, it is measured in the same turns on the templates
that it renders alike.
"""
import json
import math
import pathlib
import statistics
import subprocess
import time

from transformers.utils.chat_template_utils import _compile_jinja_template

try:
    import minijinja
except ImportError:
    minijinja = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATES = ROOT.parent / "shared" / "vectors" / "templates" / "files"
ROUNDS = 5
MIB = 1 << 20
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
WORDS = "The quick brown fox jumps over the lazy dog and then goes home, since it is late; café, naïve, 日本語. "
CONTEXT = {
    "messages": [{"role": ("user", "assistant")[i % 2], "content": WORDS * (1 + i % 3) + str(i)} for i in range(20)],
    "tools": None, "documents": None, "add_generation_prompt": True,
}


def geometric(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def timed(render, repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        render()
    return (time.process_time() - start) / repeats * 1e6


def foreign(source: str, frame: dict, expected: str):
    """A renderer by minijinja, or None where it does not give the reference's text."""
    if minijinja is None:
        return None

    def refuse(message):
        raise ValueError(message)

    try:
        env = minijinja.Environment(pycompat=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False)
        env.add_global("raise_exception", refuse)
        env.add_template("t", source)
        return (lambda: env.render_template("t", **frame)) if env.render_template("t", **frame) == expected else None
    except Exception:  # pylint: disable=broad-exception-caught  # whatever it cannot do, it is left out there
        return None


def main(binary: pathlib.Path) -> bool:
    if not TEMPLATES.exists():
        print("not-run: template: shared/vectors/templates is not beside this tree")
        return True
    frame = {**SPECIAL, **CONTEXT}
    text = json.dumps(CONTEXT, ensure_ascii=False)
    ratios: list[list[float]] = [[] for _ in range(ROUNDS)]
    whole_ratios: list[list[float]] = [[] for _ in range(ROUNDS)]
    peer_ratios: list[list[float]] = [[] for _ in range(ROUNDS)]
    ours_us, converts, excess = [], [], []
    refused = 0
    with subprocess.Popen([str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        def ask(source: str, renders: int) -> dict:
            child.stdin.write(json.dumps({"source": source, "context": text, "special_tokens": SPECIAL, "renders": renders}) + "\n")
            child.stdin.flush()
            return json.loads(child.stdout.readline())

        for file in sorted(TEMPLATES.iterdir()):
            source = file.read_bytes().decode()
            try:
                template = _compile_jinja_template(source)
                expected = template.render(**frame)
            except Exception:  # pylint: disable=broad-exception-caught  # any refusal of the reference
                expected = None
            answer = ask(source, 1)
            if (expected is None) != ("error" in answer):
                print(f"DIFFERENT: {file.name}: {answer.get('error', 'rendered')}")
                return False
            if expected is None:
                refused += 1
                continue
            if answer["output"] != expected and "strftime" not in source:
                print(f"DIFFERENT TEXT: {file.name}")
                return False
            peer = foreign(source, frame, expected)
            repeats = max(2, int(2000 / max(timed(lambda: template.render(**frame), 2), 1)))
            best_convert = answer["convert_us"]
            mine = []
            for i in range(ROUNDS):
                answer = ask(source, repeats * 10)
                reference = timed(lambda: template.render(**frame), repeats)
                ratios[i].append(reference / answer["render_us"])
                whole = timed(lambda: template.render(**SPECIAL, **json.loads(text)), repeats)
                whole_ratios[i].append(whole / answer["whole_us"])
                mine.append(answer["render_us"])
                best_convert = min(best_convert, answer["convert_us"])
                if peer is not None:
                    peer_ratios[i].append(timed(peer, repeats) / answer["render_us"])
            ours_us.append(statistics.median(mine))
            converts.append((best_convert, len(source), file.name))
            excess.append(answer["peak_bytes"] - answer["context_bytes"] - answer["output_bytes"])
        child.stdin.close()
    wholes = sorted(geometric(values) for values in whole_ratios)
    means = sorted(geometric(values) for values in ratios)
    slowest, largest = max(converts), max(converts, key=lambda row: row[1])
    print(f"{len(ours_us)} templates render 20 messages, {refused} refuse them on both sides")
    print(f"render: geometric mean {geometric(ours_us):.1f} us (spans included); {means[ROUNDS // 2]:.1f} times as fast as Jinja2 "
          f"(rounds {means[0]:.1f} to {means[-1]:.1f}; to reach: 20, goal 50)")
    print(f"from the context's JSON text to named spans: {wholes[ROUNDS // 2]:.1f} times as fast as json.loads and Jinja2 "
          f"({wholes[0]:.1f} to {wholes[-1]:.1f})")
    print(f"convert: the largest ({largest[1]} bytes) {largest[0] / 1000:.2f} ms, the slowest {slowest[0] / 1000:.2f} ms (to reach: under 5)")
    print(f"memory over context and output: at most {max(excess) / MIB:.3f} MiB (to reach: at most 1)")
    if peer_ratios[0]:
        peers = sorted(geometric(values) for values in peer_ratios)
        print(f"minijinja {len(peer_ratios[0])} templates alike: slm {peers[ROUNDS // 2]:.1f} times as fast ({peers[0]:.1f} to {peers[-1]:.1f})")
    else:
        print("not-run: minijinja is not installed; no C++ engine is in a registry as a package that can be called")
    return means[ROUNDS // 2] >= 20 and slowest[0] < 5000 and max(excess) <= MIB
