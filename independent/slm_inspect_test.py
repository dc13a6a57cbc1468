"""The inspector against the worked example of docs/spec/slm.md, and against damage (appendix A, J)."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import p0cbor  # noqa: E402
import slm_inspect  # noqa: E402

ROOT = os.path.dirname(HERE)


def example() -> tuple[bytes, str]:
    """The file of the worked example, put together from the page alone, and its stated root."""
    with open(os.path.join(ROOT, "docs", "spec", "slm.md"), encoding="utf-8") as page:
        text = page.read().split("## Worked example")[1].split("\n## ")[0]
    file = bytearray(66580)
    for at, row in re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)$", text, re.MULTILINE):
        piece = bytes.fromhex(row)
        file[int(at, 16) : int(at, 16) + len(piece)] = piece
    data = 0x10000
    file[data : data + 300] = bytes((7 * i + 1) % 256 for i in range(300))
    for row in range(18):
        for k in range(3):
            file[data + 512 + 4 * (row // 16 * 48 + k * 16 + row % 16) + 3] = row + 1
    file[data + 1024 : data + 1044] = bytes((7 * i + 1) % 256 for i in range(20))
    root = re.search(r"`artifact_root` = `([0-9a-f]{64})`", text)
    assert root is not None
    return bytes(file), root.group(1)


def forge(manifest: bytes, data: bytes) -> bytes:
    """A file with this manifest and data region, every hash made right."""
    table = b"".join(hashlib.sha256(data[at : at + (1 << 20)]).digest() for at in range(0, len(data), 1 << 20))
    table_offset = -(-(192 + len(manifest)) // 64) * 64
    data_offset = -(-(table_offset + len(table)) // 65536) * 65536
    numbers = (192, len(manifest), table_offset, len(table), data_offset, len(data))
    head = bytes.fromhex("93534c4d0d0a1a0a01000000c0000000") + (data_offset + len(data)).to_bytes(8, "little")
    head += b"".join(number.to_bytes(8, "little") for number in numbers) + bytes.fromhex("1400080000000000")
    head += hashlib.sha256(manifest).digest() + hashlib.sha256(table).digest() + bytes(40)
    head += slm_inspect.crc32c(head).to_bytes(4, "little") + bytes.fromhex("1a534c4d")
    front = (head + manifest).ljust(table_offset, b"\0") + table
    return front.ljust(data_offset, b"\0") + data


class SlmInspectTest(unittest.TestCase):
    def refusal(self, data: bytes) -> tuple[str, int]:
        with self.assertRaises(slm_inspect.Refused) as caught:
            slm_inspect.SlmFile(data)
        return caught.exception.code, caught.exception.offset

    def test_the_worked_example(self) -> None:
        data, root = example()
        slm = slm_inspect.SlmFile(data)
        self.assertIn(f'"root":"{root}"', slm.json())
        self.assertEqual(forge(p0cbor.encode(slm.manifest), data[0x10000:]), data)

    def test_header_faults(self) -> None:
        data, _ = example()
        faults = [(4, b"\x0a", "SLM-MAGIC", 0), (8, b"\x02", "SLM-VERSION", 8), (12, b"\0", "SLM-LAYOUT", 12),
                  (16, b"\x15", "SLM-SIZE", 16), (150, b"\1", "SLM-RESERVED", 150), (76, b"\1", "SLM-FLAG", 76),
                  (24, b"\xff" * 8, "SLM-RANGE", 24), (40, b"\x41", "SLM-ALIGN", 40), (48, b"\x40", "SLM-TABLE", 48),
                  (24, b"\xc1", "SLM-LAYOUT", 24), (184, b"\0", "SLM-CRC", 184), (200, b"\xff", "SLM-MANIFEST", 192),
                  (0x541, b"\xff", "SLM-TABLE", 0x540), (0x53F, b"\1", "SLM-PAD", 0x53F),
                  (0x10000, b"\0", "SLM-CHUNK", 0x10000)]
        for at, piece, code, offset in faults:
            with self.subTest(f"{code} {at}"):
                bad = bytearray(data)
                bad[at : at + len(piece)] = piece
                if code not in ("SLM-CRC", "SLM-MAGIC"):
                    bad[184:188] = slm_inspect.crc32c(bytes(bad[:184])).to_bytes(4, "little")
                self.assertEqual(self.refusal(bytes(bad)), (code, offset))
        self.assertEqual(self.refusal(data + b"\0")[0], "SLM-SIZE")
        self.assertEqual(self.refusal(data[:100]), ("SLM-SIZE", 100))

    def test_manifest_faults(self) -> None:
        data, _ = example()
        region = data[0x10000:]
        longer = p0cbor.encode(slm_inspect.SlmFile(data).manifest) + b"\xf6"
        self.assertEqual(self.refusal(forge(longer, region))[0], "SLM-MANIFEST-P0/TRAILING_BYTES")

        def edited(change) -> bytes:  # type: ignore[no-untyped-def]
            manifest = slm_inspect.SlmFile(data).manifest
            change(manifest)
            return forge(p0cbor.encode(manifest), region)

        faults = [("SLM-SCHEMA", lambda m: m.update(surprise=1)), ("SLM-SCHEMA", lambda m: m.pop("license")),
                  ("SLM-EXT", lambda m: m.update(ext={"x": {"critical": True, "data": b""}})),
                  ("SLM-FEATURE", lambda m: m["required_features"].append("q4")),
                  ("SLM-ALIGN", lambda m: m["blobs"][1].update(offset=513)),
                  ("SLM-BLOB-OVERLAP", lambda m: m["blobs"][1].update(offset=256)),
                  ("SLM-BLOB-ORPHAN", lambda m: m["blobs"][0].update(kind="notes")),
                  ("SLM-TENSOR-SIZE", lambda m: m["tensors"][2].update(shape=[6])),
                  ("SLM-ALIAS", lambda m: m["tensors"][0].update(alias_of=0)),
                  ("SLM-LINEAGE", lambda m: m["tensors"][1].update(source=[])),
                  ("SLM-DUP", lambda m: m["tensors"][2].update(name="m")),
                  ("SLM-BLOB-HASH", lambda m: m["blobs"][2].update(sha256=bytes(32)))]
        for code, change in faults:
            with self.subTest(code):
                self.assertEqual(self.refusal(edited(change))[0], code)

    def test_fill_of_the_last_group(self) -> None:
        data, _ = example()
        region = bytearray(data[0x10000:])
        region[512 + 4 * (48 + 5)] = 0x7F
        manifest = slm_inspect.SlmFile(data).manifest
        manifest["blobs"][1]["sha256"] = hashlib.sha256(region[512:896]).digest()
        self.assertEqual(self.refusal(forge(p0cbor.encode(manifest), bytes(region))),
                         ("SLM-PAD", 0x10000 + 512 + 4 * 53))


if __name__ == "__main__":
    unittest.main()
