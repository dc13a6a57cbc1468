"""`slm promote` against the oracle over every variation of the family: what the three committed models do not
reach (LVL-01, CFG-01, CFG-02, CFG-03, ORA-02). The command's path stands in the environment variable SLM.

The weights are bf16, so that `source` and `reference` differ and the truth rule decides something: between two
float32 computations of so few values, which of the two has the larger largest error is chance."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from typing import Any

from slm_oracle import golden
from slm_oracle.export import Options, export

from . import tiny
from .test_tokens import write_tokenizer

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
POLICY = os.path.join(ROOT, "profiles", "tolerance", "exact-v1-f32.json")
CARD = "---\nlicense: apache-2.0\n---\nA model of seeded random weights, for tests.\n"
CASES = [
    {"id": "ids", "ids": [1, 5, 40, 7, 7, 0, 13, 259, 3, 22, 17], "max_new_tokens": 8},
    {"id": "one", "ids": [2]},
    {"id": "text", "text": "he 12 \u00e9", "max_new_tokens": 4},
    {"id": "chat", "messages": [{"role": "user", "content": "he 12"}], "max_new_tokens": 4},
]
HELD = ("L0", "L1", "L2", "L3", "L5", "L6", "L7", "L9")


@unittest.skipUnless("SLM" in os.environ, "the environment variable SLM names no slm command")
class FamilyTest(unittest.TestCase):
    def promote(self, folder: str, changes: dict[str, Any]) -> dict[str, Any]:
        source = os.path.join(folder, "source")
        tiny.write(source, {"vocab_size": 260, "eos_token_id": 259, "torch_dtype": "bfloat16", **changes})
        write_tokenizer(source, digits=False, declared="TokenizersBackend")
        shutil.copyfile(os.path.join(ROOT, "models", "slm-demo", "LICENSE"), os.path.join(source, "LICENSE"))
        with open(os.path.join(source, "README.md"), "w", encoding="utf-8") as file:
            file.write(CARD)
        cases = os.path.join(folder, "cases.jsonl")
        with open(cases, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(case) + "\n" for case in CASES)
        copies = os.path.join(folder, "copies")
        command = [os.environ["SLM"], "--store", os.path.join(folder, "store"), "--json", "promote", source, "--cases", cases,
                   "--policy", POLICY, "-o", copies]
        for mode, taps in (("reference", "all"), ("source", "none"), ("truth", "all")):
            out = os.path.join(folder, f"{mode}.golden")
            export(source, cases, mode, out, Options(taps=taps), None)
            command += ["--evidence", out]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertTrue(done.stdout, done.stderr)
        answer = json.loads(done.stdout)
        self.assertIn("comparison", answer, done.stdout)
        self.assertEqual(done.returncode, 0, answer["comparison"].get("first"))
        return answer["comparison"]

    def test_lvl01_each_variation_of_the_family_holds_what_the_oracle_says(self) -> None:
        for name, changes in tiny.VARIATIONS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                comparison = self.promote(folder, changes)
                verdicts = {level["level"]: level["verdict"] for level in comparison["levels"]}
                self.assertEqual({level: verdicts[level] for level in HELD}, dict.fromkeys(HELD, "pass"),
                                 comparison.get("first"))
                self.assertEqual(comparison["truth"]["verdict"], "pass", comparison["truth"])
                self.assertLess(comparison["truth"]["candidate"] * 100, comparison["truth"]["source"])
                candidate = golden.File(os.path.join(folder, "copies", "candidate.golden"))
                truth = golden.File(os.path.join(folder, "truth.golden"))
                stated = {field["name"]: field["value"] for field in candidate.envelope["effective_config"]}
                for field in golden.File(os.path.join(folder, "reference.golden")).envelope["effective_config"]:
                    if field["name"] != "rope_inv_freq":  # two implementations of one definition: equal bits, next line
                        self.assertEqual(stated[field["name"]], field["value"], field["name"])
                self.assertEqual(*(file.blob(file.envelope["model_observations"][0]["blob"]) for file in (candidate, truth)))


if __name__ == "__main__":
    unittest.main()
