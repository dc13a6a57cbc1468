"""Every vector of the profile: verdict, code and round trip (ID-06)."""

from __future__ import annotations

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import p0cbor  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
VECTORS = os.path.join(ROOT, "vectors", "cbor", "p0.json")
ORIGINAL = os.path.join(ROOT, "..", "shared", "notes", "provenance-cbor-vectors.json")


def read(path: str) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class P0CborTest(unittest.TestCase):
    def test_id06_all_vectors(self) -> None:
        vectors = read(VECTORS)
        self.assertEqual(len(vectors), 57)
        for vector in vectors:
            with self.subTest(vector["id"]):
                data = bytes.fromhex(vector["hex"])
                if vector["profile_p0"]:
                    self.assertEqual(p0cbor.encode(p0cbor.decode(data)), data)
                else:
                    with self.assertRaises(p0cbor.CborError) as caught:
                        p0cbor.decode(data)
                    self.assertEqual(caught.exception.code, vector["error"])

    def test_id06_the_committed_table_is_the_original(self) -> None:
        if not os.path.exists(ORIGINAL):
            print("not-run: independent-cbor: the original of vectors/cbor/p0.json is not beside this tree")
            self.skipTest("the original is absent")
        self.assertEqual(read(VECTORS), read(ORIGINAL))

    def test_id06_a_million_levels(self) -> None:
        for data in (b"\x81" * 1_000_000 + b"\x00", b"\xa1\x61a" * 1_000_000 + b"\x00"):
            with self.assertRaises(p0cbor.CborError) as caught:
                p0cbor.decode(data)
            self.assertEqual(caught.exception.code, "LIMIT_DEPTH")

    def test_id06_every_truncation(self) -> None:
        data = p0cbor.encode({"a": [1, -500, b"xyz", "\u00e9", None], "b": {"c": True}})
        self.assertEqual(p0cbor.encode(p0cbor.decode(data)), data)
        for size in range(len(data)):
            with self.assertRaises(p0cbor.CborError) as caught:
                p0cbor.decode(data[:size])
            self.assertEqual(caught.exception.code, "TRUNCATED")


if __name__ == "__main__":
    unittest.main()
