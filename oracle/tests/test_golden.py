"""The container's writer and reader, without any framework."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
import unittest

from slm_oracle import OracleError, cbor, golden

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIXTURE = os.path.join(REPOSITORY, "src", "golden", "testdata", "small.golden")


def h(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def f32(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def write_small(path: str) -> None:
    """The example of src/golden/golden_test_util.h."""
    writer = golden.Writer(path)
    files = [{"path": b"a", "size": 1, "sha256": h(b"x")}]
    fields = [
        {"name": "hidden_size", "value": 2, "origin": "config.json"},
        {"name": "norm_eps", "value": struct.pack("<d", 1e-5), "origin": "default",
         "file": "transformers/models/llama/configuration_llama.py", "line": 73}]
    frequencies = writer.blob(f32(1, 0.5))
    attachment = writer.blob(b"{}")
    rows = writer.blob(f32(1, -0.0) + u32(0x7FC01234) + f32(4))
    scores = writer.blob(f32(1, 2, 3, 4, 5))
    mask = writer.blob(b"\x03\x07")
    top = writer.blob(u32(1, 0))
    part = {"begin": 1, "count": 2}
    generation = {"tokens": u32(8, 2), "gaps": struct.pack("<2d", 0.25, 1.5), "text": b"!", "stop_reason": "eos"}
    raw = {key: generation[key] for key in ("stop_reason", "text", "tokens")}
    first = {
        "case_id": "first", "case_class": "public_mechanical",
        "input": {"kind": "utf8", "data": "h\u00e9".encode()}, "ids": u32(5, 6, 7),
        "positions": {"begin": 0, "count": 3}, "mask": "causal", "max_new_tokens": 2, "add_generation_prompt": False,
        "tokenizations": [{"reference": "published", "of": "input", "add_special_tokens": True, "ids": u32(5, 6, 7),
                           "byte_offsets": u32(0, 0, 0, 1, 1, 3), "scalar_offsets": u32(0, 0, 0, 1, 1, 2),
                           "decoded": "h\u00e9".encode()}],
        "observations": [
            {"name": "layers.0.output", "role": "output", "layer": 0, "shape": [2, 2], "dtype": "f32",
             "layout": "row_major", "blob": rows, "rows": part, "tolerance": "residual"},
            {"name": "layers.0.attn.scores", "role": "attn.scores", "layer": 0, "shape": [1, 5], "dtype": "f32",
             "layout": "packed_causal", "blob": scores, "rows": part},
            {"name": "layers.0.attn.mask", "role": "attn.mask", "layer": 0, "shape": [2, 3], "dtype": "bits",
             "layout": "packed_bits", "blob": mask, "rows": part},
            {"name": "logits", "role": "logits", "shape": [2, 2], "dtype": "f32", "layout": "row_major", "blob": rows,
             "rows": part, "columns": {"begin": 0, "count": 2, "of": 9}},
            {"name": "top_k.ids", "role": "top_k.ids", "shape": [2, 1], "dtype": "u32", "layout": "row_major",
             "blob": top, "rows": part}],
        "generation": generation, "raw_output_commitment": h(cbor.encode(raw))}
    second = {
        "case_id": "second", "case_class": "private_behavior_commitment",
        "input": {"kind": "messages", "commitment": h(b"secret")}, "ids": b"", "positions": {"begin": 0, "count": 0},
        "mask": "causal", "max_new_tokens": 0, "add_generation_prompt": True, "tokenizations": [], "observations": [],
        "raw_output_commitment": h(b"output")}
    writer.finish({
        "mode": "reference", "generator": {"kind": "oracle", "note": "synthetic"},
        "identities": {"source": h(cbor.encode(files)),
                       "config": h(cbor.encode([[field["name"], field["value"]] for field in fields]))},
        "source_files": files, "effective_config": fields,
        "tensors": [{"name": "w", "dtype": "f32", "shape": [1, 2], "sha256": h(b"w")}],
        "tokenizer": {"same_ids": True},
        "model_observations": [{"name": "rope.inv_freq", "role": "rope.inv_freq", "shape": [2], "dtype": "f32",
                                "layout": "row_major", "blob": frequencies}],
        "attachments": [{"name": "effective-tokenizer.json", "media_type": "application/json", "blob": attachment}],
        "cases": [first, second]})


class GoldenTest(unittest.TestCase):
    def setUp(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self._folder.name, "small.golden")
        write_small(self.path)

    def tearDown(self) -> None:
        self._folder.cleanup()

    def test_gld03_the_committed_fixture_is_what_this_writer_writes(self) -> None:
        with open(self.path, "rb") as ours, open(FIXTURE, "rb") as committed:
            self.assertEqual(ours.read(), committed.read())

    def test_gld02_reading_back(self) -> None:
        file = golden.File(self.path)
        observation = file.envelope["cases"][0]["observations"][1]
        self.assertEqual(file.array(observation).tolist(), [[1, 2, 3, 4, 5]])

    def test_gld02_a_changed_byte_of_a_blob_or_the_envelope_is_refused(self) -> None:
        with open(self.path, "rb") as file:
            data = bytearray(file.read())
        for at in (64, len(data) - 200, len(data) - 60):
            damaged = bytearray(data)
            damaged[at] ^= 1
            with open(self.path, "wb") as file:
                file.write(damaged)
            with self.assertRaises(OracleError):
                golden.File(self.path)

    def test_an_abandoned_file_leaves_nothing(self) -> None:
        path = os.path.join(self._folder.name, "other.golden")
        writer = golden.Writer(path)
        writer.blob(b"x")
        writer.abandon()
        self.assertEqual(os.listdir(self._folder.name), ["small.golden"])


class CborTest(unittest.TestCase):
    """ID-06: our encoder against a second implementation, and the profile's refusals."""

    def test_id06_a_second_reader_agrees(self) -> None:
        import cbor2

        value = {"a": [0, 23, 24, 255, 256, 65536, 1 << 32, (1 << 64) - 1, -1, -25, -(1 << 63)], "bb": {"x": None},
                 "c": [True, False, b"\x00", "\u00e9\U0001f600", [], {}], "a_very_long_key_0123456789_0123456789": 1}
        encoded = cbor.encode(value)
        self.assertEqual(cbor2.loads(encoded), value)
        self.assertEqual(cbor2.dumps(value, canonical=True), encoded)
        self.assertEqual(cbor.decode(encoded), value)

    def test_id06_vectors_of_the_profile(self) -> None:
        with open(os.path.join(REPOSITORY, "vectors", "cbor", "p0.json"), encoding="utf-8") as file:
            vectors = json.load(file)
        for vector in vectors:
            with self.subTest(vector["id"]):
                data = bytes.fromhex(vector["hex"])
                if vector["profile_p0"]:
                    self.assertEqual(cbor.encode(cbor.decode(data)), data)
                else:
                    with self.assertRaises((OracleError, UnicodeDecodeError)):
                        cbor.decode(data)

    def test_id06_floats_and_other_keys_have_no_form(self) -> None:
        for value in (1.0, {"Upper": 1}, {1: 1}, {"": 1}, 1 << 64, -(1 << 63) - 1, {"k" * 65: 1}):
            with self.assertRaises(OracleError):
                cbor.encode(value)


class CommittedTest(unittest.TestCase):
    def test_gld05_of_models_by_others_no_tokenizer_is_attached(self) -> None:
        """Bounded observations of the model may stand here, its vocabulary not: a hash names it."""
        for name, attachments in (("slm-demo", ["effective-tokenizer.json"]), ("smollm2", []), ("stories260k", [])):
            for mode in ("reference", "source", "truth"):
                file = golden.File(os.path.join(REPOSITORY, "vectors", name, f"{mode}.golden"))
                self.assertEqual([item["name"] for item in file.envelope["attachments"]], attachments, (name, mode))
                self.assertEqual(len(file.envelope["tokenizer"]["effective_sha256"]), 32)
                if not attachments:  # nor in a blob that nothing names as an attachment
                    for index in range(len(file.envelope["blobs"])):
                        self.assertNotIn(b'"merges"', file.blob(index), (name, mode))


if __name__ == "__main__":
    unittest.main()
