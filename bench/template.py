#!/usr/bin/env python3
"""Chat templates against Jinja2, in turns in one run: `./dev bench template` (bench/README.md).

Every published template renders a conversation of 20 messages. Both sides hold the parsed context as values (a dict on
one, a chat::Context on the other); ours returns who owns which byte, and who wrote BOS, EOS and prefix, as well. Beside
it stands the ratio of the whole way: from the context's JSON text, to spans with the names of their owners on ours. A
template that refuses the conversation on both sides is left out; one that only one side refuses, or that gives another
text, ends the run. Peers are measured in the same turns, each on the templates that it renders alike: the C++ engines
whose sources stand in packages of npm (bench/peers builds them, where npm is at hand), and minijinja (Rust) where it
can be imported.
"""
import contextlib
import hashlib
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import tarfile
import time
from collections.abc import Callable

from transformers.utils.chat_template_utils import _compile_jinja_template

try:
    import minijinja
except ImportError:
    minijinja = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATES = ROOT.parent / "shared" / "vectors" / "templates" / "files"
PEER_DIRECTORY = ROOT / "build" / "peers"
ROUNDS = 5
MIB = 1 << 20
# Engines in C++: the package that carries the sources, its SHA-256, the driver, what else is compiled, include folders.
PEERS = {
    "llama.cpp (common/jinja)": (
        "llama.rn@0.12.9", "7069fbf1db95f07cfd9bfbbd0d160be5c0d329c5985868e00c3248338598bca5", "llama_jinja.cc", ["common/jinja/*.cpp", "common/unicode.cpp"], [".", "common"]),
    "minja": ("llama-cpp-capacitor@0.1.5", "e6fb92b2b277d75108885126be1aafaa1dbc3688b8d691f68ef46aceb7c122d5", "minja.cc", [], ["."]),
}
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


def build_peer(name: str) -> pathlib.Path | None:
    """The peer's program, built where it is not there yet; None (and a line) where it cannot be had."""
    package, digest, driver, sources, includes = PEERS[name]
    folder = PEER_DIRECTORY / package.replace("@", "-")
    program = folder / driver.removesuffix(".cc")
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    compiler = os.environ.get("CXX") or shutil.which("clang++-22") or shutil.which("g++")
    if shutil.which("npm") is None or compiler is None:
        print(f"not-run: {name}: npm or a C++ compiler is absent")
        return None
    if subprocess.run(["npm", "pack", package, "--pack-destination", folder], capture_output=True, check=False).returncode != 0:
        print(f"not-run: {name}: npm does not give {package}")
        return None
    archive = next(folder.glob("*.tgz"))
    if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
        raise SystemExit(f"{package}: the archive is another one")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    root = folder / "package" / "cpp"
    files = [str(file) for pattern in sources for file in sorted(root.glob(pattern))]
    command = [compiler, "-O2", "-DNDEBUG", "-std=c++17", *(f"-I{root / include}" for include in includes),
               str(ROOT / "bench" / "peers" / driver), *files, "-o", str(program)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        print(f"not-run: {name}: {package} does not compile here")
        return None
    return program


class Engine:
    """A program that answers lines of JSON."""

    def __init__(self, program: pathlib.Path):
        self.program = program
        self.start()

    def start(self):
        self.child = subprocess.Popen([str(self.program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True)

    def ask(self, request: dict) -> dict:
        try:
            self.child.stdin.write(json.dumps(request) + "\n")
            self.child.stdin.flush()
            return json.loads(self.child.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):  # it died: on this template it has no answer
            self.child.wait()
            self.start()
            return {"error": "died"}

    def close(self):
        self.child.stdin.close()
        self.child.wait()


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
    peer_ratios: dict[str, list[list[float]]] = {}
    ours_us, converts, excess = [], [], []
    refused = 0
    with contextlib.ExitStack() as stack:
        ours = Engine(binary)
        stack.callback(ours.close)
        engines = {}
        for name in PEERS:
            if (program := build_peer(name)) is not None:
                engines[name] = Engine(program)
                stack.callback(engines[name].close)

        for file in sorted(TEMPLATES.iterdir()):
            source = file.read_bytes().decode()

            def request(renders: int, source=source) -> dict:
                return {"source": source, "context": text, "special_tokens": SPECIAL, "renders": renders}

            try:
                template = _compile_jinja_template(source)
                expected = template.render(**frame)
            except Exception:  # pylint: disable=broad-exception-caught  # any refusal of the reference
                expected = None
            answer = ours.ask(request(1))
            if (expected is None) != ("error" in answer):
                print(f"DIFFERENT: {file.name}: {answer.get('error', 'rendered')}")
                return False
            if expected is None:
                refused += 1
                continue
            if answer["output"] != expected and "strftime" not in source:
                print(f"DIFFERENT TEXT: {file.name}")
                return False
            repeats = max(2, int(2000 / max(timed(lambda: template.render(**frame), 2), 1)))
            # Each peer on the templates whose text it gives: microseconds a rendering.
            peers: dict[str, Callable[[], float]] = {}
            for name, engine in engines.items():
                if engine.ask(request(1)).get("output") == expected:
                    peers[name] = lambda engine=engine: engine.ask(request(repeats)).get("render_us", math.nan)
            if (rust := foreign(source, frame, expected)) is not None:
                peers["minijinja"] = lambda rust=rust: timed(rust, repeats)
            best_convert = answer["convert_us"]
            mine = []
            for i in range(ROUNDS):
                answer = ours.ask(request(repeats * 10))
                reference = timed(lambda: template.render(**frame), repeats)
                ratios[i].append(reference / answer["render_us"])
                whole = timed(lambda: template.render(**SPECIAL, **json.loads(text)), repeats)
                whole_ratios[i].append(whole / answer["whole_us"])
                mine.append(answer["render_us"])
                best_convert = min(best_convert, answer["convert_us"])
                for name, measure in peers.items():
                    peer_ratios.setdefault(name, [[] for _ in range(ROUNDS)])[i].append(measure() / answer["render_us"])
            ours_us.append(statistics.median(mine))
            converts.append((best_convert, len(source), file.name))
            excess.append(answer["peak_bytes"] - answer["context_bytes"] - answer["output_bytes"])
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
    faster = True
    for name, rounds in sorted(peer_ratios.items()):
        peer = sorted(geometric(values) for values in rounds)
        faster = faster and peer[ROUNDS // 2] > 1
        print(f"{name}: {len(rounds[0])} templates alike; slm is {peer[ROUNDS // 2]:.1f} times as fast ({peer[0]:.1f} to {peer[-1]:.1f})")
    if minijinja is None:
        print("not-run: minijinja: the package is not installed")
    return means[ROUNDS // 2] >= 20 and slowest[0] < 5000 and max(excess) <= MIB and faster
