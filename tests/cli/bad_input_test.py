"""Bad input through the command: one row each, with exit status 3, the exact code, and the exact place (ACQ-10, ACQ-12).

    bad_input_test.py --slm PATH [unittest arguments]

Each row changes one thing of the chain of tiny_source.py, which converts as it is. The places are computed here, from
the bytes that the row wrote: a byte offset, or the field where nothing stands at an offset (what is absent, what is
refused by its name). Below the rows: codes that need more than a changed source (MEMORY, TOK-NO-UNK, CLAIM-FAILED).
Standard library only.
"""
import argparse
import hashlib
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable

import tiny_source

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "independent"))
import p0cbor  # noqa: E402  pylint: disable=wrong-import-position
SLM = ""
Folder = pathlib.Path
Tensor = tuple[str, list[int], bytes]
Place = tuple[str, int | None, str | None]  # file, byte offset, field
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 12345\n"
Q, UP = "model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight"


def call(store: Folder, *arguments: object, **options: object) -> tuple[int, dict]:
    done = subprocess.run([SLM, "--store", str(store), "--json", *map(str, arguments)], capture_output=True, check=False,
                          timeout=120, stdin=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    return done.returncode, json.loads(done.stdout)


# ---- changing a source ----------------------------------------------------------------------------


def tensors() -> dict[str, Tensor]:
    return {name: ("F32", shape, struct.pack(f"<{len(values)}f", *values))
            for name, (shape, values) in tiny_source.tensors().items()}


def write_weights(folder: Folder, of: dict[str, Tensor], place_of: str) -> int:
    """Writes model.safetensors; returns the offset of the first data byte of `place_of`."""
    header: dict[str, object] = {}
    data = b""
    for name, (dtype, shape, content) in of.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return 8 + len(text) + header[place_of]["data_offsets"][0] if place_of in header else -1  # type: ignore[index]


def value_at(file: Folder, key: str) -> int:
    """Offset of the value of a key that stands once in a JSON file as json.dumps writes it."""
    text = file.read_bytes()
    mark = f'"{key}": '.encode()
    assert text.count(mark) == 1
    return text.index(mark) + len(mark)


def configured(folder: Folder, **changes: object) -> None:
    (folder / "config.json").write_text(json.dumps(tiny_source.config(**changes)))


# ---- the rows: each writes its fault and says where it must be seen ------------------------------


def nan_weight(folder: Folder) -> Place:
    of = tensors()
    content = bytearray(of[Q][2])
    struct.pack_into("<f", content, 4 * 37, float("nan"))
    of[Q] = ("F32", of[Q][1], bytes(content))
    return "model.safetensors", write_weights(folder, of, Q) + 4 * 37, Q


def integer_weights(folder: Folder) -> Place:
    of = tensors()
    of[Q] = ("I32", of[Q][1], of[Q][2])
    return "model.safetensors", write_weights(folder, of, Q), Q


def transposed(folder: Folder) -> Place:
    wide = 2 * tiny_source.SIZE
    of = tensors()
    for name, shape in (("gate", [wide, tiny_source.SIZE]), ("up", [tiny_source.SIZE, wide]),
                        ("down", [tiny_source.SIZE, wide])):
        of[f"model.layers.0.mlp.{name}_proj.weight"] = ("F32", shape, bytes(4 * wide * tiny_source.SIZE))
    configured(folder, intermediate_size=wide)
    return "model.safetensors", write_weights(folder, of, UP), UP


def extra_layer(folder: Folder) -> Place:
    name = "model.layers.1.input_layernorm.weight"
    of = tensors()
    of[name] = of["model.norm.weight"]
    return "model.safetensors", write_weights(folder, of, name), name


def missing_tensor(folder: Folder) -> Place:
    of = tensors()
    del of[UP]
    write_weights(folder, of, UP)
    return "model.safetensors", None, UP


def lfs_pointer(folder: Folder) -> Place:
    (folder / "model.safetensors").write_text(POINTER)
    return "model.safetensors", 0, None


def link_out_of_the_tree(folder: Folder) -> Place:
    outside = folder.parent / "outside.json"
    (folder / "generation_config.json").rename(outside)
    os.symlink(outside, folder / "generation_config.json")
    return "generation_config.json", None, "generation_config.json"


def python_file(folder: Folder) -> Place:
    (folder / "modeling_llama.py").write_text("print()\n")
    return "modeling_llama.py", None, "modeling_llama.py"


def two_templates(folder: Folder) -> Place:
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "chat_template": "{{ 'other' }}"}))
    return "chat_template.jinja", 0, "chat_template"


def no_license(folder: Folder) -> Place:
    (folder / "README.md").write_text("# A chain of tokens\n")
    return "README.md", None, "license"


def tied_flag(folder: Folder) -> Place:
    configured(folder, tie_word_embeddings=True)
    return "config.json", value_at(folder / "config.json", "tie_word_embeddings"), "tie_word_embeddings"


def vocabulary_against_embedding(folder: Folder) -> Place:
    of = tensors()
    of["model.embed_tokens.weight"] = ("F32", [17, tiny_source.SIZE], bytes(4 * 17 * tiny_source.SIZE))
    write_weights(folder, of, Q)
    return "config.json", value_at(folder / "config.json", "vocab_size"), "vocab_size"


def config_against_generation_config(folder: Folder) -> Place:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 7}))
    return "config.json", value_at(folder / "config.json", "eos_token_id"), "eos_token_id"


def written(folder: Folder, file: str, value: object, key: str) -> Place:
    (folder / file).write_text(json.dumps(value))
    return file, value_at(folder / file, key), key


def code_of_the_publisher(folder: Folder) -> Place:
    return written(folder, "tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["house.Tokenizer", None]}}, "auto_map")


def special_tokens_cut_up(folder: Folder) -> Place:
    return written(folder, "tokenizer_config.json", {"eos_token": "<end>", "split_special_tokens": True},
                   "split_special_tokens")


def foreign_tokenizer_class(folder: Folder) -> Place:
    return written(folder, "tokenizer_config.json", {"tokenizer_class": "HouseTokenizer"}, "tokenizer_class")


def another_tokenizer_file(folder: Folder) -> Place:
    return written(folder, "tokenizer_config.json", {"fast_tokenizer_files": ["tokenizer.5.0.0.json"]},
                   "fast_tokenizer_files")


def argument_in_the_special_tokens(folder: Folder) -> Place:
    return written(folder, "special_tokens_map.json", {"add_bos_token": True}, "add_bos_token")


def key_that_nobody_lists(folder: Folder) -> Place:
    (folder / "tokenizer_config.json").write_text('{"house_style": 1}')
    return "tokenizer_config.json", 1, "house_style"


def name_that_speaks_of_behaviour(folder: Folder) -> Place:
    (folder / "tokenizer_config.json").write_text('{"split_digits": true}')
    return "tokenizer_config.json", 1, "split_digits"


def special_token_without_id(folder: Folder) -> Place:
    file, offset, _ = written(folder, "tokenizer_config.json", {"eos_token": "<end>", "sep_token": "<new>"}, "sep_token")
    return file, offset, "<new>"


def id_beyond_every_id(folder: Folder) -> Place:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["a"] = 1 << 40
    return written(folder, "tokenizer.json", tokenizer, "a")[:2] + (None,)


def card_with_another_template(folder: Folder) -> Place:
    card = folder / "README.md"
    card.write_text(card.read_text() + "```jinja\n{% for m in messages %}|{{ m }}{% endfor %}\n```\n")
    return "README.md", card.read_bytes().index(b"{% for"), "chat_template"


def template_that_is_no_text(folder: Folder) -> Place:
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "house.jinja").write_bytes(b"{{ 1 }}\xff")
    return "additional_chat_templates/house.jinja", 7, None


def card_that_is_no_text(folder: Folder) -> Place:
    card = folder / "README.md"
    card.write_bytes(card.read_bytes() + b"```jinja\n{% for m in messages %}\xff{% endfor %}\n```\n")
    return "README.md", card.read_bytes().index(b"{% for"), "chat_template"


def text_file_too_large(folder: Folder) -> Place:
    with (folder / "chat_template.jinja").open("wb") as file:
        file.truncate((64 << 20) + 1)
    return "chat_template.jinja", None, "chat_template.jinja"


SOURCES: tuple[tuple[Callable[[Folder], Place], str], ...] = (
    (nan_weight, "NONFINITE"), (integer_weights, "MAP-DTYPE"), (transposed, "MAP-SHAPE"), (extra_layer, "MAP-LAYER"),
    (missing_tensor, "MAP-MISSING"), (lfs_pointer, "LFS-UNRESOLVED"), (link_out_of_the_tree, "ACQ-KIND"),
    (python_file, "ACQ-FORBIDDEN"), (two_templates, "TPL-AMBIGUOUS"), (no_license, "LIC-MISSING"),
    (tied_flag, "CFG-TIED"), (vocabulary_against_embedding, "CFG-VOCAB-SHAPE"),
    (config_against_generation_config, "CFG-CONFLICT-EOS"), (code_of_the_publisher, "CFG-VALUE"),
    (special_tokens_cut_up, "CFG-VALUE"), (foreign_tokenizer_class, "CFG-VALUE"), (another_tokenizer_file, "CFG-VALUE"),
    (argument_in_the_special_tokens, "CFG-VALUE"), (key_that_nobody_lists, "CFG-UNCLASSIFIED"),
    (name_that_speaks_of_behaviour, "CFG-UNKNOWN-FIELD"), (special_token_without_id, "TOK-ADDED-ID"),
    (id_beyond_every_id, "TOK-ID"), (card_with_another_template, "TPL-AMBIGUOUS"), (text_file_too_large, "ACQ-LIMIT"),
    (template_that_is_no_text, "UTF8"), (card_that_is_no_text, "TPL-AMBIGUOUS"))


# ---- changing an artifact (docs/spec/slm.md) ------------------------------------------------------


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def sealed(header: bytearray) -> bytes:
    struct.pack_into("<I", header, 184, crc32c(bytes(header[:184])))
    return bytes(header)


def other_major(artifact: bytes) -> tuple[bytes, int | None, str | None]:
    """format_major 2 with a checksum that fits."""
    header = bytearray(artifact[:192])
    struct.pack_into("<H", header, 8, 2)
    return sealed(header) + artifact[192:], 8, "header"


def other_template_ir(artifact: bytes) -> tuple[bytes, int | None, str | None]:
    """The IR's schema of another major version, every hash above it made again."""
    (manifest_size, table_at), (data_at,) = struct.unpack_from("<QQ", artifact, 32), struct.unpack_from("<Q", artifact, 56)
    manifest, data = artifact[192:192 + manifest_size], artifact[data_at:]
    assert len(data) <= 1 << 20  # one chunk
    blob = next(b for b in p0cbor.decode(manifest)["blobs"] if b["kind"] == "template-ir")
    begin, end = blob["offset"], blob["offset"] + blob["size"]
    changed = data[begin:end].replace(b"slm.template-ir.v3", b"slm.template-ir.v9")
    assert changed != data[begin:end] and manifest.count(blob["sha256"]) == 1
    data = data[:begin] + changed + data[end:]
    manifest = manifest.replace(blob["sha256"], hashlib.sha256(changed).digest())
    table = hashlib.sha256(data).digest()
    header = bytearray(artifact[:192])
    header[80:112], header[112:144] = hashlib.sha256(manifest).digest(), hashlib.sha256(table).digest()
    between = artifact[192 + manifest_size:table_at], artifact[table_at + 32:data_at]
    return sealed(header) + manifest + between[0] + table + between[1] + data, None, "template-ir"


class Rows(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="slm-bad-")
        self.addCleanup(scratch.cleanup)
        self.work = Folder(scratch.name)
        self.store = self.work / "store"
        self.source = tiny_source.write(self.work / "source")
        self.artifact = self.work / "model.slm"

    def convert(self) -> bytes:
        status, answer = call(self.store, "convert", self.source, "-o", self.artifact)
        self.assertEqual(status, 0, answer)
        return self.artifact.read_bytes()

    def refused(self, status: int, code: str, *arguments: object, **options: object) -> dict:
        got, answer = call(self.store, *arguments, **options)
        self.assertEqual((got, answer.get("error", {}).get("code")), (status, code), answer)
        return answer["error"]

    def test_sources(self) -> None:
        for change, code in SOURCES:
            with self.subTest(change.__name__):
                folder = self.work / change.__name__
                file, offset, field = change(tiny_source.write(folder / "source"))
                error = self.refused(3, code, "convert", folder / "source", "-o", folder / "never.slm")
                self.assertEqual((error.get("file"), error.get("byte_offset")), (file, offset), error)
                if field is not None:
                    self.assertEqual(error.get("field"), field)
                self.assertFalse((folder / "never.slm").exists())

    def test_artifacts(self) -> None:
        good = self.convert()
        for change, code in ((other_major, "SLM-VERSION"), (other_template_ir, "TPL-IR")):
            with self.subTest(change.__name__):
                changed, offset, field = change(good)
                self.assertEqual(len(changed), len(good))
                path = self.work / f"{change.__name__}.slm"
                path.write_bytes(changed)
                error = self.refused(3, code, "run", path, "a", "--chat")
                self.assertEqual((error.get("file"), error.get("byte_offset"), error.get("field")),
                                 (str(path), offset, field), error)

    def test_the_forged_artifact_differs_by_its_version_only(self) -> None:
        """The hashes that other_template_ir makes again are right: another reader than the template's finds no fault."""
        self.artifact.write_bytes(other_template_ir(self.convert())[0])
        status, answer = call(self.store, "inspect", self.artifact)
        self.assertEqual((status, answer.get("header", {}).get("major")), (0, 1), answer)

    def test_memory(self) -> None:
        """A cache of 2^24 positions takes 2 GiB; half a GiB is given."""
        configured(self.source, max_position_embeddings=1 << 24)
        self.convert()
        limit = 1 << 29
        error = self.refused(4, "MEMORY", "run", self.artifact, "a",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertIn("16777216 positions", error["message"])

    def test_text_that_the_vocabulary_cannot_spell(self) -> None:
        """tokenizers 0.23.3 raises here: unk_token is declared and not in the vocabulary."""
        path = self.source / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        tokenizer["model"]["unk_token"] = "<unk>"
        path.write_text(json.dumps(tokenizer))
        error = self.refused(3, "TOK-NO-UNK", "tokenize", self.source, "aXa")
        self.assertEqual(error["field"], "$.model.unk_token")
        self.assertEqual(call(self.store, "tokenize", self.source, "aba")[1]["ids"], [0, 3, 0])

    def test_mutants_of_a_chain_that_does_not_hold(self) -> None:
        """Under a policy that leaves the logits no room, a mutant that fails would show nothing."""
        vectors = ROOT / "vectors" / "slm-demo"
        policy = json.loads((ROOT / "profiles" / "tolerance" / "slm-demo.exact-v1-f32.json").read_text())
        (logits,) = (rule for rule in policy["rules"] if rule["role"] == "logits")
        for key, limit in (("atol", 1e-12), ("rtol", 0)):
            logits[key] = limit
            logits[f"{key}_basis"] = {"permitted": limit, "oracle_variation": 0, "observed": 0, "factor": 0}
        mutate = ("mutate", ROOT / "models" / "slm-demo", "--cases", vectors / "cases.jsonl", "--policy",
                  self.work / "policy.json", "--evidence", vectors / "reference.golden", "--only", "noop-artifact")
        # Under the name and version of the one that ships it is no policy at all (TOL-03).
        (self.work / "policy.json").write_text(json.dumps(policy))
        self.refused(3, "GRAPH-POLICY", *mutate)
        policy["name"] = "no-room"
        (self.work / "policy.json").write_text(json.dumps(policy))
        self.refused(1, "CLAIM-FAILED", *mutate)


def main() -> None:
    global SLM
    parser = argparse.ArgumentParser()
    parser.add_argument("--slm", required=True)
    args, rest = parser.parse_known_args()
    SLM = str(Folder(args.slm).resolve())
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
