#!/usr/bin/env python3
"""TPL-06: two templates on one conversation, one of them in the metadata of a GGUF file: the first byte that differs.

    python3 tests/chat/against_test.py BUILD/apps/slm/slm

GGUF files are packed here by the format's specification. Exit status 1 on a fault.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SLM = ""
CONTEXT = {"messages": [{"role": "user", "content": "Hé"}], "add_generation_prompt": True}


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def gguf(template: str | None, tokens: list[str]) -> bytes:
    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama"),
             text("tokenizer.ggml.bos_token_id") + struct.pack("<II", 4, 1),
             text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, len(tokens)) + b"".join(map(text, tokens))]
    if template is not None:
        pairs.append(text("tokenizer.chat_template") + struct.pack("<I", 8) + text(template))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs) + bytes(64)


class Against(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.context = self.folder / "context.json"
        self.context.write_text(json.dumps(CONTEXT))
        (self.folder / "tokenizer_config.json").write_text(json.dumps(
            {"bos_token": "<s>", "chat_template": "{{ bos_token }}[{{ messages[0].content }}]"}))

    def slm(self, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run([SLM, "--json", "render", *map(str, arguments)], capture_output=True, text=True, check=False)

    def against(self, template: str | None, *more) -> subprocess.CompletedProcess:
        file = self.folder / "model.gguf"
        file.write_bytes(gguf(template, ["<unk>", "<s>", "</s>"]))
        return self.slm(self.folder, self.context, "--against", file, *more)

    def test_the_same_text_by_another_template(self):
        done = self.against("{{ bos_token + '[' + messages[0]['content'] }}]")
        self.assertEqual((done.returncode, json.loads(done.stdout)), (0, {"same": True, "bytes": len("<s>[Hé]".encode())}))

    def test_the_first_byte_that_differs(self):
        for template, at in (("{{ bos_token }}[{{ messages[0].content }}", 7), ("{{ bos_token }}(", 3),
                             ("{{ bos_token }}[Hè]", 6), ("{{ bos_token }}[{{ messages[0].content }}]!", 8)):
            with self.subTest(template):
                done = self.against(template)
                error = json.loads(done.stdout)["error"]
                self.assertEqual((done.returncode, error["code"]), (3, "TPL-AMBIGUOUS"))
                self.assertIn(f"part at byte {at}:", error["message"])

    def test_refusals(self):
        self.assertIn("TPL-MISSING", self.against(None).stderr)
        self.assertIn("TPL-INPUT", self.against("{{ strftime_now('%Y') }}").stderr)
        self.assertIn("TPL-FORBIDDEN", self.against("{% include 'x' %}").stderr)
        self.assertEqual(self.against("x", "--explain").returncode, 2)
        broken = self.folder / "broken.gguf"
        broken.write_bytes(gguf("x", ["<s>"])[:60])
        self.assertIn("TPL-INPUT", self.slm(broken, self.context).stderr)

    def test_a_clock_for_the_date(self):
        done = self.against("{{ strftime_now('%Y') }}", "--clock", "2026-11-30T12:00:00")
        self.assertIn("part at byte 0: |<s>[Hé]| here, |2026| by", json.loads(done.stdout)["error"]["message"])


if __name__ == "__main__":
    SLM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
