"""`check` has teeth: a changed weight bit, exporter, prompt or value makes it fail (ORA-01)."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from slm_oracle import check, golden, receipt
from slm_oracle.repeatability import run_export

from . import tiny

CASES = b'{"id":"a","ids":[1,5,40,7,7,0,13],"max_new_tokens":6}\n{"id":"b","ids":[3,3,9]}\n'


class CheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.source = tiny.write(os.path.join(cls.folder.name, "source"))
        cls.cases = os.path.join(cls.folder.name, "cases.jsonl")
        with open(cls.cases, "wb") as file:
            file.write(CASES)
        cls.truth = os.path.join(cls.folder.name, "truth.golden")
        run_export(cls.source, cls.cases, "truth", cls.truth, ["--bounded"], {})

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def assert_fails(self, report: dict[str, str], text: str) -> None:
        self.assertEqual(report["verdict"], "fail", report)
        self.assertIn(text, report["detail"])

    def test_ora01_an_unchanged_file_passes_bit_for_bit(self) -> None:
        report = check.check(self.truth, self.source, self.cases)
        self.assertEqual((report["verdict"], report["criterion"]), ("pass", "bit-equal"), report)

    def test_ora01_a_changed_weight_bit_fails(self) -> None:
        source = shutil.copytree(self.source, os.path.join(self.folder.name, "bit"))
        path = os.path.join(source, "model.safetensors")
        with open(path, "r+b") as file:
            file.seek(-400, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-400, os.SEEK_END)
            file.write(bytes([byte ^ 1]))
        self.assert_fails(check.check(self.truth, source, self.cases), "source file model.safetensors")

    def test_ora01_a_new_or_missing_source_file_fails(self) -> None:
        source = shutil.copytree(self.source, os.path.join(self.folder.name, "more"))
        with open(os.path.join(source, "generation_config.json"), "w", encoding="utf-8") as file:
            file.write('{"eos_token_id": 3}')
        self.assert_fails(check.check(self.truth, source, self.cases), "generation_config.json is new")

    def test_ora01_a_changed_prompt_fails(self) -> None:
        changed = os.path.join(self.folder.name, "changed.jsonl")
        with open(changed, "wb") as file:
            file.write(CASES.replace(b"[3,3,9]", b"[3,3,8]"))
        self.assert_fails(check.check(self.truth, self.source, changed), "cases file")

    def test_ora01_a_changed_exporter_fails(self) -> None:
        copy_of = os.path.join(self.folder.name, "package")
        shutil.copytree(os.path.dirname(receipt.HERE), copy_of, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        with open(os.path.join(copy_of, "slm_oracle", "truth.py"), "a", encoding="utf-8") as file:
            file.write("# changed\n")
        done = subprocess.run(
            [sys.executable, "-m", "slm_oracle", "check", self.truth, "--source", self.source, "--cases", self.cases],
            env={**os.environ, "PYTHONPATH": copy_of}, cwd=copy_of, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("exporter sha256", done.stdout)

    def test_ora01_a_changed_value_fails_and_is_named(self) -> None:
        """One bit of one stored value, with every hash of the container made again."""
        forged = self.rewrite(lambda name, data: data if name != "layers.1.mlp.act" else data[:-8] + bytes([data[-8] ^ 1])
                              + data[-7:])
        self.assert_fails(check.check(forged, self.source, self.cases), "layers.1.mlp.act[3, 19]")

    def test_ora01_a_changed_token_fails(self) -> None:
        file = golden.File(self.truth)
        other = copy.deepcopy(file.envelope)
        tokens = bytearray(other["cases"][0]["generation"]["tokens"])
        tokens[4] ^= 1
        other["cases"][0]["generation"]["tokens"] = bytes(tokens)
        now = copy.copy(file)
        now.envelope = other
        for exact in (True, False):
            with self.assertRaisesRegex(check.Difference, r"tokens\[1\]"):
                check.compare(file, now, exact)

    def test_ora01_the_bound_of_another_machine(self) -> None:
        """Elsewhere truth may differ by 1e-12 of the array's largest value, and not by more."""
        for size, passes in ((3e-13, True), (3e-12, False)):
            def change(name: str, data: bytes, size: float = size) -> bytes:
                if name != "final_norm":
                    return data
                values = np.frombuffer(data, "<f8").copy()
                values[5] += size * np.abs(values).max()
                return values.tobytes()
            recorded, now = golden.File(self.truth), golden.File(self.rewrite(change))
            if passes:
                check.compare(recorded, now, exact=False)
                with self.assertRaises(check.Difference):
                    check.compare(recorded, now, exact=True)
            else:
                with self.assertRaisesRegex(check.Difference, "final_norm"):
                    check.compare(recorded, now, exact=False)

    def test_ora01_without_a_measurement_float32_must_be_bit_equal(self) -> None:
        recorded = golden.File(self.truth)
        recorded.envelope["mode"] = "reference"
        limits = check._Limits(recorded.envelope, exact=False)
        self.assertEqual(limits.of("logits", "f32"), 0.0)
        recorded.envelope["generator"]["repeatability"] = {"max_relative": {"logits": np.float64(3e-7).tobytes()}}
        limits = check._Limits(recorded.envelope, exact=False)
        self.assertEqual(limits.of("top_k.values", "f32"), 3e-7)  # as measured, no factor on it
        self.assertEqual(limits.of("top_k.values", "bf16"), 2.0**-8)
        self.assertEqual(limits.of("final_norm", "f32"), 0.0)  # not measured
        self.assertEqual(check._Limits(recorded.envelope, exact=True).of("logits", "f32"), 0.0)

    def rewrite(self, change: "callable") -> str:
        """The truth file with the bytes of some observations changed and every hash made again."""
        file = golden.File(self.truth)
        path = os.path.join(self.folder.name, "forged.golden")
        writer = golden.Writer(path)
        envelope = copy.deepcopy(file.envelope)
        names = {observation["blob"]: observation["name"] for case in envelope["cases"] for observation in case["observations"]}
        renumbered = [writer.blob(change(names.get(index, ""), file.blob(index))) for index in range(len(envelope["blobs"]))]
        for record in [*envelope["model_observations"], *envelope["attachments"],
                       *(observation for case in envelope["cases"] for observation in case["observations"])]:
            record["blob"] = renumbered[record["blob"]]
        for key in ("schema", "required", "blobs"):
            del envelope[key]
        writer.finish(envelope)
        return path


if __name__ == "__main__":
    unittest.main()
