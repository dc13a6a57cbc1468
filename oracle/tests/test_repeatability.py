"""The measurement goes from one processor's evidence into the next one's (ORA-01)."""

from __future__ import annotations

import copy
import os
import struct
import tempfile
import unittest
import unittest.mock

import numpy as np

from slm_oracle import check, golden, repeatability
from slm_oracle.repeatability import run_export

from . import tiny

CASES = b'{"id":"a","ids":[1,5,40,7,7,0,13]}\n{"id":"b","ids":[3,3,9]}\n'


class RepeatabilityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.source = tiny.write(cls.path("source"))
        cls.cases = cls.path("cases.jsonl")
        with open(cls.cases, "wb") as file:
            file.write(CASES)
        cls.alone = cls.measured("alone.json", [])
        cls.here = cls.path("here.golden")
        run_export(cls.source, cls.cases, "truth", cls.here, ["--bounded", "--repeatability", cls.path("alone.json")], {})

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    @classmethod
    def path(cls, name: str) -> str:
        return os.path.join(cls.folder.name, name)

    # Two settings are enough here, and a minute less.
    @classmethod
    @unittest.mock.patch.object(repeatability, "_TRUTH", repeatability._TRUTH[:2])
    def measured(cls, name: str, recorded: list[str]) -> dict:
        repeatability.measure(cls.source, cls.cases, "truth", cls.path(name), 1, recorded)
        return repeatability.load(cls.path(name))

    def from_elsewhere(self, size: float) -> str:
        """The evidence as another processor might have written it: its name, and its last bits of the logits."""
        file = golden.File(self.here)
        path = self.path("elsewhere.golden")
        writer = golden.Writer(path)
        envelope = copy.deepcopy(file.envelope)
        logits = {observation["blob"] for case in envelope["cases"] for observation in case["observations"]
                  if observation["role"] == "logits"}
        for index in range(len(envelope["blobs"])):
            data = file.blob(index)
            if index in logits:
                values = np.frombuffer(data, "<f8").copy()
                values[1] += size * np.abs(values).max()
                data = values.tobytes()
            self.assertEqual(writer.blob(data), index)
        for record in (envelope["generator"]["environment"], envelope["generator"]["repeatability"]):
            record["cpu"] = dict(record["cpu"], model_name="another")
        for key in ("schema", "required", "blobs"):
            del envelope[key]
        writer.finish(envelope)
        return path

    def test_ora01_the_difference_to_another_processor_is_measured_and_kept(self) -> None:
        other = self.from_elsewhere(3e-14)
        record = self.measured("both.json", [other])
        entry, = record["elsewhere"]
        self.assertEqual(entry["cpu"]["model_name"], "another")
        for largest in (entry["max_relative"], record["max_relative"]):
            self.assertAlmostEqual(struct.unpack("<d", largest["logits"])[0] / 3e-14, 1, delta=0.05)
        self.assertLess(struct.unpack("<d", self.alone["max_relative"]["logits"])[0], 3e-15)
        both = self.path("both.golden")
        run_export(self.source, self.cases, "truth", both, ["--bounded", "--repeatability", self.path("both.json")], {})
        self.assertEqual(check.check(both, self.source, self.cases)["verdict"], "pass")
        # What is measured once stays, also when this processor measures again.
        self.assertEqual(self.measured("again.json", [both])["elsewhere"], record["elsewhere"])

    @unittest.mock.patch.object(repeatability, "_TRUTH", repeatability._TRUTH[:1])
    def test_ora01_evidence_of_other_cases_says_nothing(self) -> None:
        cases = self.path("more.jsonl")
        with open(cases, "wb") as file:
            file.write(CASES + b'{"id":"c","ids":[2]}\n')
        repeatability.measure(self.source, cases, "truth", self.path("more.json"), 1, [self.from_elsewhere(3e-14)])
        self.assertEqual(repeatability.load(self.path("more.json"))["elsewhere"], [])


if __name__ == "__main__":
    unittest.main()
