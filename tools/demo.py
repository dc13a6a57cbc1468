"""What `./dev demo` shows: a promotion of the shipped model from source to verified receipt, then
the same gates against seeded defects."""
import pathlib
import shutil
import subprocess
import sys
import time


class Demo:
    def __init__(self, root: pathlib.Path, slm: pathlib.Path):
        self.root = root
        self.slm = slm
        self.out = root / "build" / "demo"
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        self.store = str(self.out / "store")
        self.said = ""
        vectors = root / "vectors" / "slm-demo"
        self.inputs = [str(root / "models" / "slm-demo"), "--cases", str(vectors / "cases.jsonl"),
                       "--policy", str(root / "profiles" / "tolerance" / "slm-demo.exact-v1-f32.json")]
        for mode in ("reference", "source", "truth"):
            self.inputs += ["--evidence", str(vectors / f"{mode}.golden")]

    def heading(self, text: str) -> None:
        print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)

    def call(self, *arguments: str) -> int:
        shown = " ".join(a.replace(str(self.root) + "/", "") for a in arguments)
        print(f"$ slm {shown}", flush=True)
        self.said = ""
        with subprocess.Popen([str(self.slm), "--store", self.store, *arguments], stdout=subprocess.PIPE, text=True,
                              cwd=self.root) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print("  " + line, end="", flush=True)
                self.said += line
        return process.returncode


def main(root: pathlib.Path, slm: pathlib.Path) -> int:
    demo = Demo(root, slm)
    mutants = [sys.executable, str(root / "tests" / "mutants" / "build.py"), "--build-dir", str(root / "build" / "release")]
    done = subprocess.run(mutants, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"the mutant builds failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}", file=sys.stderr)
        return 4
    started = time.monotonic()

    demo.heading("1. Promote: acquire, convert, run, compare every stage with the source framework's evidence")
    if status := demo.call("promote", *demo.inputs, "--name", "slm-demo", "--revision", "1", "-o", str(demo.out)):
        return status
    receipt = demo.said.split()[1]

    demo.heading("2. Verify: hash everything again, compute every verdict again from the raw arrays, run again")
    if status := demo.call("verify", receipt, "--rerun"):
        return status

    demo.heading("3. Report: one page to look at")
    if status := demo.call("report", receipt, "-o", str(demo.out / "report.html")):
        return status

    demo.heading("4. The gates bite: seeded defects, shuffled among three no-op mutants")
    if status := demo.call("mutate", *demo.inputs):
        return status

    print(f"\nDone in {time.monotonic() - started:.0f} s. Look at build/demo/report.html, and try:\n"
          "  ./dev slm run build/demo/model.slm --chat \"Hello\"\n"
          f"  ./dev slm --store build/demo/store show {receipt[:12]}")
    return 0
