"""slm acquire as a user sees it: exit status, one line of refusal, JSON, determinism (ACQ-10, ACQ-12).

    acquire_cli_test.py --slm PATH [--source DIR]

Writes a small source of its own. With --source only: a real source must need no decision; where it is absent the
exit status is 77, which CTest knows as a skipped case.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 4,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TOKENIZER = {
    "added_tokens": [{"id": 1, "content": "<s>"}, {"id": 2, "content": "</s>"}],
    "model": {"type": "BPE", "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3}, "merges": []},
}


def write_source(folder: pathlib.Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2]}))
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Test\n")
    entry = {"model.embed_tokens.weight": {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]}}
    header = json.dumps(entry).encode()
    header += b" " * (-len(header) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(32))


class Runner:
    def __init__(self, slm: str, root: pathlib.Path) -> None:
        self.slm, self.root, self.failures = slm, root, 0

    def acquire(self, source: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
        command = [self.slm, "--store", str(self.root / "store"), *options[:1], "acquire", str(source), *options[1:]]
        return subprocess.run([part for part in command if part], capture_output=True, text=True, check=False)

    def expect(self, what: str, holds: bool, detail: object = "") -> None:
        if not holds:
            self.failures += 1
            print(f"FAILED: {what}: {detail}", file=sys.stderr)


def real_source(slm: str, source: pathlib.Path) -> int:
    if not source.is_dir():
        print(f"{source.name} is absent")
        return SKIPPED
    with tempfile.TemporaryDirectory() as temporary:
        run = Runner(slm, pathlib.Path(temporary))
        shutil.copytree(source, run.root / "real")
        real = run.acquire(run.root / "real", "--json", "--name", "real", "--revision", "r")
        run.expect("a real source needs no decision", real.returncode == 0, real.stderr + real.stdout)
        return 1 if run.failures else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slm", required=True)
    parser.add_argument("--source", type=pathlib.Path)
    args = parser.parse_args()
    if args.source is not None:
        return real_source(args.slm, args.source)
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        run = Runner(args.slm, root)
        source = root / "source"
        write_source(source)

        first = run.acquire(source, "--json", "--name", "t", "--revision", "r")
        run.expect("a plain source is taken", first.returncode == 0, first.stderr)
        answer = json.loads(first.stdout)
        run.expect("license", answer["license"]["spdx"] == "MIT", answer)
        run.expect("files", [f["path"] for f in answer["files"]] == sorted(p.name for p in source.iterdir()), answer)
        shutil.copytree(source, root / "copy")
        second = run.acquire(root / "copy", "--json", "--name", "t", "--revision", "r")
        run.expect("the same bytes, the same id", second.stdout == first.stdout)
        human = run.acquire(source, "", "--name", "t", "--revision", "r")
        run.expect("human text names the id", answer["acquisition"] in human.stdout, human.stdout)
        run.expect("no progress bar off a terminal", human.stderr == "", human.stderr)

        (source / "generation_config.json").write_text('{"eos_token_id": [3]}')
        conflict = run.acquire(source, "", "--name", "t", "--revision", "r")
        run.expect("a conflict ends with 3", conflict.returncode == 3, conflict.returncode)
        at = (source / "config.json").read_text().index("2}")
        run.expect("code, file and offset", conflict.stderr.startswith(f"error CFG-CONFLICT-EOS at config.json:{at}: "),
                   conflict.stderr)
        refusal = json.loads(run.acquire(source, "--json", "--name", "t", "--revision", "r").stdout)["error"]
        run.expect("the same as JSON", (refusal["code"], refusal["file"], refusal["byte_offset"], refusal["field"])
                   == ("CFG-CONFLICT-EOS", "config.json", at, "eos_token_id"), refusal)
        conflict_id = refusal["message"].split("Conflict ")[1][:64]
        statement = root / "statement.json"
        statement.write_text(json.dumps({
            "schema": "slm.decision.v1", "kind": "accept-conflict", "reviewer": "test", "reason": "test",
            "applies_to": [conflict_id], "choice": "config.json#$.eos_token_id"}))
        accepted = run.acquire(source, "--json", "--name", "t", "--revision", "r", "--accept-conflict", str(statement))
        run.expect("a statement settles it", accepted.returncode == 0, accepted.stderr + accepted.stdout)
        run.expect("and is recorded", json.loads(accepted.stdout)["conflicts"] == [conflict_id], accepted.stdout)

        (source / "modeling.py").write_text("print()")
        code = run.acquire(source, "", "--name", "t", "--revision", "r")
        run.expect("code is refused by name", code.returncode == 3 and
                   code.stderr.startswith("error ACQ-FORBIDDEN at modeling.py"), code.stderr)
        usage = run.acquire(pathlib.Path(""), "")
        run.expect("no source is wrong usage", usage.returncode in (2, 3), usage.returncode)
        fsck = subprocess.run([args.slm, "--store", str(root / "store"), "fsck"], capture_output=True, check=False)
        run.expect("the store is clean", fsck.returncode == 0, fsck.stderr)
        return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
