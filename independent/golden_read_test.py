"""Every committed container is verified and written again; every damaged one is refused (GLD-02, GLD-03)."""

from __future__ import annotations

import hashlib
import os
import re
import struct
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import golden_read  # noqa: E402

ROOT = os.path.dirname(HERE)
SMALL = os.path.join(ROOT, "src", "golden", "testdata", "small.golden")


def committed() -> list[str]:
    found = []
    for top in ("vectors", "src"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            found += [os.path.join(folder, name) for name in names if name.endswith(".golden")]
    return sorted(found)


class GoldenReadTest(unittest.TestCase):
    def test_gld03_every_committed_container(self) -> None:
        files = committed()
        self.assertIn(SMALL, files)
        for path in files:
            with self.subTest(os.path.relpath(path, ROOT)), open(path, "rb") as file:
                container = golden_read.Container(file.read())
                self.assertEqual(container.serialize(), container.data)

    def test_gld03_the_worked_example_of_the_specification(self) -> None:
        with open(os.path.join(ROOT, "docs", "spec", "golden.md"), encoding="utf-8") as file:
            text = file.read().split("## 10.")[1]
        data = bytearray()
        for row in re.findall(r"^[0-9a-f]{4}  (?:[0-9a-f]{2} ){15}[0-9a-f]{2}", text, re.MULTILINE):
            data += bytes(int(row[:4], 16) - len(data)) + bytes.fromhex(row[6:])
        container = golden_read.Container(bytes(data))
        self.assertIn(hashlib.sha256(data).hexdigest(), text)
        self.assertEqual(container.data[64:72], struct.pack("<2f", 1, 0.5))

    def test_gld02_every_changed_byte_and_every_cut_is_refused(self) -> None:
        with open(SMALL, "rb") as file:
            data = file.read()
        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 1
            with self.assertRaises(golden_read.Refused, msg=f"byte {at}"):
                golden_read.Container(bytes(damaged))
            with self.assertRaises(golden_read.Refused, msg=f"cut at {at}"):
                golden_read.Container(data[:at])
        with self.assertRaises(golden_read.Refused):
            golden_read.Container(data + bytes(64))

    def test_gld02_rules_behind_right_hashes(self) -> None:
        """A wrong envelope with every hash made again is refused by rule."""
        with open(SMALL, "rb") as file:
            data = file.read()

        def mutate(change: "callable") -> str:
            container = golden_read.Container(data)
            change(container.envelope)
            with self.assertRaises(golden_read.Refused) as caught:
                golden_read.Container(container.serialize())
            return caught.exception.code

        first = lambda envelope: envelope["cases"][0]
        table = [
            ("GLD-SCHEMA", lambda e: e.update(extra=1)),
            ("GLD-SCHEMA", lambda e: e.pop("tensors")),
            ("GLD-VERSION", lambda e: e.update(required=["sparse"])),
            ("GLD-VERSION", lambda e: e.update(schema="tinyrustlm.golden.v2")),
            ("GLD-SCHEMA", lambda e: e["generator"].update(note="other")),
            ("GLD-SCHEMA", lambda e: e["source_files"][0].update(size=9)),
            ("GLD-SCHEMA", lambda e: e["effective_config"][0].update(value=3)),
            ("GLD-SCHEMA", lambda e: first(e).update(max_new_tokens=True)),
            ("GLD-SCHEMA", lambda e: first(e)["generation"].update(tokens=bytes(8))),
            ("GLD-SHAPE", lambda e: first(e)["observations"][0].update(shape=[3, 2])),
            ("GLD-SHAPE", lambda e: first(e)["observations"][1]["rows"].update(begin=0)),
            ("GLD-SHAPE", lambda e: first(e)["observations"][3]["columns"].update(of=2)),
            ("GLD-BLOB", lambda e: first(e)["observations"][0].update(blob=99)),
            ("GLD-BLOB", lambda e: e["attachments"].clear()),
            ("GLD-SCHEMA", lambda e: e["cases"][1]["input"].update(data=b"secret")),
            ("GLD-SCHEMA", lambda e: e["cases"][1].update(case_id="first")),
        ]
        for number, (code, change) in enumerate(table):
            with self.subTest(number):
                self.assertEqual(mutate(change), code)


if __name__ == "__main__":
    unittest.main()
