"""The command line as its users see it (docs/spec/cli.md): exit statuses, refusals, output files,
batches, records.

    cli_test.py --slm PATH [unittest arguments]

Standard library only. Models are the shipped one and the chain of tiny_source.py, whose answers are known.
"""
import argparse
import base64
import json
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import tiny_source

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "independent"))
import sampler  # noqa: E402  pylint: disable=wrong-import-position
DEMO = ROOT / "models" / "slm-demo"
VECTORS = ROOT / "vectors" / "slm-demo"
POLICY = ROOT / "profiles" / "tolerance" / "slm-demo.exact-v1-f32.json"
LINE = re.compile(r"error ([A-Z0-9/_-]+)( at (.*?))?: (.+)\n")
COMMANDS = ("acquire", "convert", "inspect", "tokenize", "detokenize", "render", "run", "chat", "observe", "compare",
            "promote", "verify", "report", "export", "mutate", "fsck", "log", "show")
SLM = ""


class Case(unittest.TestCase):
    """One folder with a store, the chain as a source and as an artifact, shared by all cases."""

    work: pathlib.Path
    source: pathlib.Path
    artifact: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        if not hasattr(Case, "work"):
            Case.work = pathlib.Path(tempfile.mkdtemp(prefix="slm-cli-"))
            unittest.addModuleCleanup(shutil.rmtree, Case.work)
            Case.source = tiny_source.write(Case.work / "chain")
            Case.artifact = Case.work / "chain.slm"
            done = subprocess.run(cls.command("convert", Case.source, "-o", Case.artifact), capture_output=True,
                                  text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)

    @staticmethod
    def command(*arguments: object) -> list[str]:
        return [SLM, "--store", str(Case.work / "store"), *map(str, arguments)]

    def slm(self, *arguments: object, stdin: bytes = b"", **more: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self.command(*arguments), input=stdin, capture_output=True, check=False, timeout=60,
                              **more)  # type: ignore[call-overload]

    def ok(self, *arguments: object, stdin: bytes = b"") -> str:
        done = self.slm(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def json(self, *arguments: object, stdin: bytes = b"") -> dict:
        return json.loads(self.ok("--json", *arguments, stdin=stdin))

    def refused(self, status: int, code: str, *arguments: object, stdin: bytes = b"") -> dict:
        """Both forms of a refusal; returns the members of the JSON form."""
        human = self.slm(*arguments, stdin=stdin)
        self.assertEqual(human.returncode, status, (arguments, human.stderr))
        self.assertEqual(human.stdout, b"", arguments)
        found = LINE.fullmatch(human.stderr.decode())
        self.assertIsNotNone(found, human.stderr)
        assert found is not None
        self.assertEqual(found[1], code, human.stderr)
        machine = self.slm("--json", *arguments, stdin=stdin)
        self.assertEqual(machine.returncode, status)
        document = json.loads(machine.stdout)
        self.assertEqual(list(document), ["error"])
        error = document["error"]
        self.assertEqual(error["code"], code)
        self.assertIn(error["message"], found[4])
        place = error.get("file", "") + (f":{error['byte_offset']}" if "byte_offset" in error else "")
        if "file" in error:
            self.assertEqual(found[3], place)
        if "field" in error:
            self.assertIn(error["field"], found[4])
        return error

    def batch(self, *arguments: object, lines: bytes) -> list[dict]:
        done = self.slm(*arguments, "--batch", stdin=lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.decode().splitlines()]


class Root(Case):
    def test_no_command_is_wrong_usage_with_the_help_on_standard_error(self) -> None:
        done = self.slm()
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        for name in COMMANDS:
            self.assertIn(f"\n  {name} ".encode(), done.stderr)
        error = json.loads(self.slm("--json").stdout)["error"]
        self.assertEqual(error["code"], "USAGE")

    def test_an_unknown_command_is_named_with_the_nearest(self) -> None:
        for given, meant in (("tokenise", "tokenize"), ("convret", "convert"), ("prom", "promote"), ("logs", "log")):
            error = self.refused(2, "USAGE", given)
            self.assertIn(f"'{given}'; did you mean '{meant}'?", error["message"])
        for given in ("zzzzzzzz", "x" * 5000, "", "a\nb"):
            self.assertNotIn("did you mean", self.refused(2, "USAGE", given)["message"])

    def test_an_unknown_option_is_named_with_the_nearest(self) -> None:
        error = self.refused(2, "USAGE", "run", self.artifact, "a", "--max-new-token=3")
        self.assertIn("did you mean '--max-new-tokens'?", error["message"])
        self.assertIn("slm run --help", error["message"])
        self.refused(2, "USAGE", "--jsn", "log")
        self.refused(2, "USAGE", "inspect", self.artifact, "surplus")

    def test_version_and_help(self) -> None:
        self.assertRegex(self.ok("--version"), r"^slm \d+\.\d+\.\d+.*\n$")
        self.assertRegex(self.json("--version")["version"], r"^\d+\.\d+\.\d+")
        self.assertEqual(self.ok("help"), self.ok("--help"))
        self.assertEqual(self.ok("help", "run"), self.ok("run", "--help"))
        self.assertIn("did you mean 'render'", self.refused(2, "USAGE", "help", "rendr")["message"])

    def test_every_command_has_an_example_and_its_bounds(self) -> None:
        listed = re.findall(r"^  ([a-z]+) ", self.ok("--help").split("Subcommands:")[1], re.MULTILINE)
        self.assertEqual(sorted(set(listed) - {"help"} - {"slm"}), sorted(COMMANDS))
        for name in COMMANDS:
            text = self.ok(name, "--help")
            self.assertRegex(text, rf"Examples?:\n  (.*\| )?slm {name} ", name)
            for bound in ("input", "memory", "time"):
                self.assertRegex(text, rf"(?s)Bounds:\n.*  {bound} +\S", name)
            self.assertIn(text.strip(), self.json(name, "--help")["help"])

    def test_missing_arguments_are_wrong_usage(self) -> None:
        for name in sorted(set(COMMANDS) - {"log", "fsck"}):
            self.assertIn(f"slm {name} --help", self.refused(2, "USAGE", name)["message"])


class Numbers(Case):
    def test_what_is_no_number_in_range_is_wrong_usage(self) -> None:
        run = ("run", self.artifact, "a", "--max-new-tokens")
        for value in ("-1", "99999999999999999999", "18446744073709551616", "1048577", "1.5", "1e3", "0x10", "", " 1",
                      "1 ", "+1", "many"):
            self.assertIn("--max-new-tokens", self.refused(2, "USAGE", *run[:-1], f"{run[-1]}={value}")["message"])
        self.refused(2, "USAGE", *run, "-1")
        self.refused(2, "USAGE", "log", "--limit", "-1")
        self.refused(2, "USAGE", "log", "--limit", "18446744073709551616")
        self.refused(2, "USAGE", "show", "00", "--depth", "65")
        self.refused(2, "USAGE", "run", self.artifact, "a", "--threads", "0")
        for value in ("1e400", "nan", "inf", "warm"):
            self.refused(2, "USAGE", "run", self.artifact, "a", f"--temperature={value}")
        self.refused(2, "USAGE", *run, "1", "--max-new-tokens", "2")

    def test_numbers_of_batch_records(self) -> None:
        bad = ("-1", "1.5", "1e400", "1e2", '"1"', "null", "true", "99999999999999999999", "[1]")
        records = [f'{{"id":{i},"ids":[0],"max_new_tokens":{value}}}' for i, value in enumerate(bad)]
        records += [f'{{"id":"i{i}","ids":[{value}],"max_new_tokens":1}}' for i, value in enumerate(bad)]
        records += ['{"id":"t","ids":[0],"sampling":{"temperature":1e400}}',
                    '{"id":"s","ids":[0],"stop_ids":[-1]}']
        answers = self.batch("run", self.artifact, lines="\n".join(records).encode())
        for answer in answers:
            self.assertEqual(list(answer), ["id", "error"])
            self.assertEqual(answer["error"]["code"], "CASE-SCHEMA", answer)
            self.assertIn("byte_offset", answer["error"])
        self.assertEqual([a["error"]["field"] for a in answers[:9]], ["max_new_tokens"] * 9)
        records = [f'{{"id":{i},"ids":[{value}]}}' for i, value in enumerate(bad)]
        for answer in self.batch("detokenize", self.artifact, lines="\n".join(records).encode()):
            self.assertEqual(answer["error"]["code"], "CASE-SCHEMA", answer)


class Arguments(Case):
    def test_what_excludes_each_other_is_wrong_usage(self) -> None:
        for arguments in (("run", self.artifact, "hi", "--ids", "1"), ("run", self.artifact, "--ids", "1", "--chat"),
                          ("run", self.artifact, "hi", "--batch"), ("run", self.artifact, "--ids", "1", "--batch"),
                          ("run", self.artifact, "--record", "--batch"),
                          ("run", self.artifact, "--max-new-tokens", "3", "--batch"),
                          ("tokenize", self.source, "hi", "--batch"), ("tokenize", self.source, "--explain", "--batch"),
                          ("detokenize", self.source, "1", "--batch"),
                          ("render", self.source, "context.json", "--batch")):
            self.assertIn("exclude each other", self.refused(2, "USAGE", *arguments)["message"])

    def test_ids_are_parsed_not_pasted(self) -> None:
        for text in ("0,1", "0 1", "[0, 1]"):
            self.assertEqual(self.json("run", self.artifact, "--ids", text)["prompt_ids"], [0, 1])
        for text in ("", ",", "a", "1]}", '0],"text":"x', "-1", "1.0", "4294967296", "0x1"):
            self.assertIn("--ids", str(self.refused(2, "USAGE", "run", self.artifact, f"--ids={text}")))
        self.refused(2, "USAGE", "run", self.artifact, "--ids", "0", "--ids", "1")
        error = self.refused(3, "RUN-TOKEN", "run", self.artifact, "--ids", "0,16")
        self.assertIn("16", error["message"])

    def test_names_of_kernels_and_backends(self) -> None:
        kernel = self.refused(2, "USAGE", "run", self.artifact, "a", "--kernel", "fast")
        self.assertIn("scalar, vector", kernel["message"])
        backend = self.refused(2, "USAGE", "observe", self.artifact, "--cases", VECTORS / "cases.jsonl", "-o",
                               self.work / "o.golden", "--backend", "wasm")
        self.assertIn("native-scalar, native-vector", backend["message"])

    def test_an_empty_prompt_is_a_prompt_and_reads_no_standard_input(self) -> None:
        done = self.slm("--json", "run", self.artifact, "", stdin=b"a")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.json("tokenize", self.source, "", stdin=b"a")["ids"], [])


class Outputs(Case):
    """ACQ-10: what a command writes appears whole or not at all, and replaces nothing but files."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        self.cases = self.folder / "cases.jsonl"
        self.cases.write_text('{"id":"one","ids":[0],"max_new_tokens":1}\n')

    def writers(self) -> dict[str, tuple[object, ...]]:
        return {"convert": ("convert", self.source, "-o"),
                "observe": ("observe", self.artifact, "--cases", self.cases, "-o")}

    def test_a_device_stays_a_device(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root could replace a device")
        full = self.folder / "full"
        try:
            os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
            with open(full, "wb"):
                pass
        except OSError:
            self.skipTest("no device can be made here")
        for name, command in self.writers().items():
            error = self.refused(4, "DISK-FULL", *command, full)
            self.assertEqual(error["file"], str(full), name)
            self.assertIn("No space left on device", error["message"])
            self.assertTrue(stat.S_ISCHR(full.stat().st_mode))
        self.ok("convert", self.source, "-o", "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_a_fifo_is_written_through(self) -> None:
        for name, command in self.writers().items():
            fifo, plain = self.folder / f"{name}.fifo", self.folder / f"{name}.plain"
            os.mkfifo(fifo)
            got: list[bytes] = []
            reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()), daemon=True)
            reader.start()
            self.ok(*command, fifo)
            reader.join(timeout=30)
            self.ok(*command, plain)
            self.assertEqual(got, [plain.read_bytes()], name)
            self.assertTrue(fifo.is_fifo())

    def test_a_link_is_followed(self) -> None:
        for name, command in self.writers().items():
            target, link = self.folder / f"{name}.target", self.folder / f"{name}.link"
            link.symlink_to(target.name)
            for _ in range(2):  # dangling, then not
                self.ok(*command, link)
                self.assertTrue(link.is_symlink())
                self.assertGreater(target.stat().st_size, 0)
                target.write_bytes(b"")
        self.assertEqual([f.name for f in self.folder.iterdir() if "partial" in f.name], [])

    def test_where_no_file_can_be_is_an_environment_fault(self) -> None:
        for command in self.writers().values():
            for path, words in ((self.folder, "directory"), (self.folder / "absent" / "f", "No such file"),
                                (self.cases / "f", "Not a directory"), (self.folder / ("x" * 300), "name too long")):
                error = self.refused(4, "IO", *command, path)
                self.assertEqual(error["file"], str(path))
                self.assertIn(words, error["message"])

    def test_an_input_is_not_overwritten(self) -> None:
        source = tiny_source.write(self.folder / "source")
        weights = source / "model.safetensors"
        before = weights.read_bytes()
        os.link(weights, self.folder / "hard")
        (self.folder / "soft").symlink_to(weights)
        for path in (weights, self.folder / "hard", self.folder / "soft", source / ".." / "source" / "config.json"):
            self.assertEqual(self.refused(2, "USAGE", "convert", source, "-o", path)["file"], str(path))
        self.assertEqual(weights.read_bytes(), before)
        for path in (self.artifact, self.cases):
            self.refused(2, "USAGE", "observe", self.artifact, "--cases", self.cases, "-o", path)
        for path in ("", "-"):
            self.refused(2, "USAGE", "convert", source, f"--out={path}")
        self.assertFalse(pathlib.Path("-").exists())

    def test_standard_output_is_no_output_file(self) -> None:
        path = self.folder / "captured"
        with open(path, "wb") as out:
            done = subprocess.run(self.command("convert", self.source, "-o", "/dev/stdout"), stdout=out,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)


class StandardOutput(Case):
    RECORDS = b'{"id":1,"text":"a"}\n' * 2000

    def test_a_full_standard_output_ends_the_work(self) -> None:
        for arguments in (("tokenize", self.source, "--batch"), ("tokenize", DEMO), ("log",), ("--help",),
                          ("run", self.artifact, "a"), ("--json", "inspect", self.artifact)):
            with open("/dev/full", "wb") as full:
                done = subprocess.run(self.command(*arguments), input=self.RECORDS, stdout=full,
                                      stderr=subprocess.PIPE, check=False, timeout=60)
            self.assertEqual(done.returncode, 4, (arguments, done.stderr))
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
            self.assertIn(b"error DISK-FULL at standard output: ", done.stderr)

    def test_a_reader_that_went_away_ends_the_work(self) -> None:
        process = subprocess.Popen(self.command("tokenize", self.source, "--batch"), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(b'{"id":1,"text":"a"}\n')
        process.stdin.flush()  # and stays open: the program must not wait for more
        self.assertEqual(process.wait(timeout=30), 4)
        self.assertIn(b"Broken pipe", process.stderr.read())
        process.stdin.close()
        process.stderr.close()

    def test_a_closed_standard_output(self) -> None:
        out = self.work / "closed.slm"
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *self.command("convert", self.source, "-o", out)],
                              stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(out.read_bytes(), self.artifact.read_bytes())  # nothing of the summary got into it

    def test_answers_come_line_by_line(self) -> None:
        process = subprocess.Popen(self.command("tokenize", self.source, "--batch"), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        assert process.stdin and process.stdout
        for i in range(3):
            process.stdin.write(b'{"id":%d,"text":"a"}\n' % i)
            process.stdin.flush()
            self.assertTrue(select.select([process.stdout], [], [], 30)[0])
            self.assertEqual(json.loads(process.stdout.readline())["id"], i)
        process.stdin.close()
        self.assertEqual(process.wait(timeout=30), 0)
        process.stdout.close()


class Batches(Case):
    MODELS = (("tokenize", b'"text":"a"'), ("detokenize", b'"ids":[0]'),
              ("render", b'"context":{"messages":[]}'), ("run", b'"ids":[0]'))

    def model(self, command: str) -> pathlib.Path:
        return self.artifact if command == "run" else self.source

    def test_ids_come_back_as_they_came(self) -> None:
        ids = (b"1", b"-0", b"1.0", b"1e5", b"1E+5", b"123456789012345678901234567890", b"0.1000", b'"x"', b'"\\u0041"',
               b'"\xc3\xa9"', b"null", b"true", b"[1, 2.0,  {}]", b'{"a" : [1e400], "b":"\\/"}', b'""')
        for command, member in self.MODELS:
            lines = b"".join(b'{"id": ' + id_ + b" ," + member + b"}\n" for id_ in ids)
            lines += b"".join(b'{"id": ' + id_ + b' ,"no":1}\n' for id_ in ids)
            done = self.slm(command, self.model(command), "--batch", stdin=lines)
            answers = done.stdout.split(b"\n")
            self.assertEqual(len(answers), 2 * len(ids) + 1)
            for id_, answer, refusal in zip(ids, answers, answers[len(ids):]):
                self.assertTrue(answer.startswith(b'{"id":' + id_ + b","), (command, answer))
                self.assertTrue(refusal.startswith(b'{"id":' + id_ + b',"error":{'), (command, refusal))

    def test_every_line_is_answered_in_order(self) -> None:
        bad = {b"": "JSON-SYNTAX", b"   ": "JSON-SYNTAX", b"\t\r": "JSON-SYNTAX", b"\r": "JSON-SYNTAX",
               b"[1]": "JSON-TYPE", b"1": "JSON-TYPE", b'"x"': "JSON-TYPE", b"null": "JSON-TYPE", b"{": "JSON-SYNTAX",
               b'{"id":1}{"id":2}': "JSON-SYNTAX", b'{"id":1,"id":1}': "JSON-DUPKEY",
               b'{"id":"\xff"}': "JSON-UTF8", b'{"id":"\xed\xa0\x80"}': "JSON-UTF8", b'{"id":"\\ud800"}': "JSON-SURROGATE",
               b"\xef\xbb\xbf{}": "JSON-SYNTAX", b'{"id":NaN}': "JSON-SYNTAX", b'{"id":01}': "JSON-SYNTAX",
               b"\x00": "JSON-SYNTAX", b"[" * 100000: "JSON-DEPTH"}
        for command, member in self.MODELS:
            good = b'{"id":"good",' + member + b"}"
            lines = b"\n".join(line + b"\n" + good for line in bad)  # no line feed at the end
            answers = self.batch(command, self.model(command), lines=lines)
            self.assertEqual(len(answers), 2 * len(bad), command)
            for (line, code), answer, after in zip(bad.items(), answers[::2], answers[1::2]):
                self.assertEqual((answer["id"], answer["error"]["code"]), (None, code), (command, line[:30]))
                self.assertIn("byte_offset", answer["error"], line[:30])
                self.assertEqual(after["id"], "good")
                self.assertNotIn("error", after)

    def test_a_damaged_record_keeps_the_id_that_can_be_read(self) -> None:
        for line, id_ in ((b'{"id":"x","text":"\\ud800"}', "x"), (b'{"text":"\xff\\"}","id" : 7 }', 7),
                          (b'{"id":[1,"}"],"text":"a","text":"b"}', [1, "}"]), (b'{"id":5,"text":"cut', 5),
                          (b'{"context":{"id":1,"id":2},"id":"outer"}', "outer"), (b'{"context":{"id":1,"a":01}}', None),
                          (b'{"id":1,"text":01,"id":2}', None), (b'{"id":1 2,"text":"a"}', None)):
            for command, _ in self.MODELS:
                answer, = self.batch(command, self.model(command), lines=line + b"\n")
                self.assertEqual(answer["id"], id_, (command, line))
                self.assertIn("error", answer)

    def test_line_ends(self) -> None:
        for command, member in self.MODELS:
            record = b'{"id":1,' + member + b"}"
            for lines, n in ((record, 1), (record + b"\n", 1), (record + b"\r\n", 1), (record + b"\n\n", 2), (b"", 0),
                             (b"\n", 1), (record + b"\r\n" + record, 2)):
                self.assertEqual(len(self.batch(command, self.model(command), lines=lines)), n, (command, lines))

    def test_a_record_without_an_id_is_answered_with_null(self) -> None:
        for command, member in self.MODELS:
            (answer,) = self.batch(command, self.model(command), lines=b"{" + member + b"}")
            self.assertIsNone(answer["id"])
            self.assertNotIn("error", answer)

    def test_long_lines(self) -> None:
        text = b"a" * (3 << 20)
        (answer,) = self.batch("tokenize", self.source, lines=b'{"id":1,"text":"' + text + b'"}')
        self.assertEqual(answer["ids"], [0] * len(text))

    def test_unknown_members_are_refused_by_name(self) -> None:
        for command, member in self.MODELS:
            lines = b'{"id":1,' + member + b',"add_special_token":true}\n'
            (answer,) = self.batch(command, self.model(command), lines=lines)
            error = answer["error"]
            self.assertIn(error["code"], ("SCHEMA-UNKNOWN-KEY", "CASE-SCHEMA"), command)
            self.assertEqual(error["field"], "add_special_token")
            self.assertIn("byte_offset", error)

    def test_values_of_the_wrong_kind(self) -> None:
        cases = {"tokenize": (b'"text":1', b'"bytes":"!"', b'"text":"a","bytes":"YQ=="', b'"text":"a","padding":1',
                              b'"text":"a","api":"x"', b'"no_text":1'),
                 "detokenize": (b'"ids":1', b'"ids":[0],"mode":"x"', b'"ids":[0],"mode":1', b'"mode":"raw"'),
                 "render": (b'"context":1', b'"context":{},"clock":1', b'"context":{},"template":1', b'"clock":"x"'),
                 "run": (b'"ids":[]', b'"text":1', b'"ids":[0],"text":"a"', b'"ids":[0],"logits":"x"', b'"messages":[1]')}
        for command, members in cases.items():
            for member in members:
                (answer,) = self.batch(command, self.model(command), lines=b'{"id":1,' + member + b"}")
                self.assertIn("error", answer, (command, member))
                self.assertEqual(answer["id"], 1)

    def test_errors_of_templates_say_where(self) -> None:
        source = "line one é\n é{% include 'x' %}"
        record = json.dumps({"id": 1, "context": {"messages": []}, "template": source}).encode()
        (answer,) = self.batch("render", self.source, lines=record)
        error = answer["error"]
        self.assertEqual(error["stage"], "convert")
        before = source.encode()[:error["byte_offset"]].decode()
        self.assertEqual(error["line"], 2)
        self.assertEqual(error["column"], len(before.split("\n")[1]) + 1)
        self.assertIn(f"line {error['line']}, column {error['column']}", error["message"])
        path = self.work / "broken.jinja"
        path.write_text(source)
        single = self.refused(3, error["code"], "render", path, stdin=b'{"messages":[]}')
        self.assertEqual({k: single[k] for k in ("stage", "line", "column", "byte_offset")},
                         {k: error[k] for k in ("stage", "line", "column", "byte_offset")})
        self.assertEqual(single["file"], str(path))
        record = json.dumps({"id": 2, "context": {"messages": []},
                             "template": "{{ raise_exception('roles must alternate') }}"}).encode()
        (answer,) = self.batch("render", self.source, lines=record)
        self.assertEqual(answer["error"]["stage"], "render")
        self.assertIn("roles must alternate", answer["error"]["message"])


class Newcomer(Case):
    """The first things that go wrong: each message says what it is and what to do."""

    def test_wrong_files(self) -> None:
        files = {"page.html": b"<!doctype html><html></html>", "model.gguf": b"GGUF" + bytes(64), "empty": b"",
                 "weights.safetensors": struct_header(), "pointer": b"version https://git-lfs.github.com/spec/v1\n"}
        for name, content in files.items():
            path = self.work / name
            path.write_bytes(content)
            for command in (("inspect", path), ("run", path, "a"), ("tokenize", path, "a"), ("render", path)):
                done = self.slm(*command, stdin=b'{"messages":[]}')
                if command[0] == "render" and done.returncode == 0:
                    continue  # any text is a template
                error = self.refused(3, LINE.fullmatch(done.stderr.decode())[1], *command,  # type: ignore[index]
                                     stdin=b'{"messages":[]}')
                self.assertEqual(error["file"], str(path), command)
        for name, word in (("page.html", "HTML"), ("model.gguf", "GGUF"), ("empty", "empty"),
                           ("weights.safetensors", "safetensors"), ("pointer", "LFS")):
            self.assertIn(word, self.refused(3, "SLM-MAGIC", "inspect", self.work / name)["message"])
        gguf = self.work / "model.gguf"
        self.assertIn("source directory", self.refused(3, "UNSUPPORTED", "render", gguf)["message"])
        for command in (("acquire", gguf), ("convert", gguf, "-o", self.work / "x")):
            self.assertIn("this is a file", self.refused(3, "UNSUPPORTED", *command)["message"])

    def test_vocabularies_of_a_directory(self) -> None:
        folder = self.work / "vocabularies"
        folder.mkdir()
        shutil.copyfile(self.source / "tokenizer.json", folder / "tokenizer.json")
        self.assertIn("takes two", self.refused(3, "NOT-FOUND", "tokenize", folder, "--compare")["message"])
        (folder / "model.gguf").write_bytes(b"GGUF" + bytes(64))
        error = self.refused(3, "UNSUPPORTED", "tokenize", folder, "--compare")
        self.assertEqual((error["file"], error["byte_offset"]), (str(folder / "model.gguf"), 4))
        self.refused(2, "USAGE", "tokenize", self.source / "tokenizer.json", "--compare")

    def test_a_text_reaches_the_tokenizer_byte_for_byte(self) -> None:
        """TOK-08: however a text is handed in, no step changes a byte of it."""
        text = "e\u0301\r\n\u1112\u1161\u11ab \u00e9\u2028\ufeff\ufb01 \U0001f468\u200d\U0001f469 \u202ea\t b  \u00a0"
        expected = self.json("tokenize", DEMO, stdin=text.encode())["ids"]
        self.assertEqual(self.json("tokenize", DEMO, text)["ids"], expected)
        for record in ({"id": 1, "text": text}, {"id": 1, "bytes": base64.b64encode(text.encode()).decode()}):
            for escaped in (True, False):
                line = json.dumps(record, ensure_ascii=escaped).encode()
                self.assertEqual(self.batch("tokenize", DEMO, lines=line)[0]["ids"], expected)
        ids = self.json("tokenize", DEMO, "--no-special-tokens", stdin=text.encode())["ids"]
        self.assertEqual(self.slm("detokenize", DEMO, *map(str, ids)).stdout, text.encode())

    def test_absent_files_and_folders(self) -> None:
        absent = self.work / "absent"
        for command in (("inspect", absent), ("run", absent, "a"), ("tokenize", absent, "a"), ("render", absent),
                        ("acquire", absent), ("convert", absent, "-o", self.work / "x"),
                        ("promote", absent, "--cases", absent, "--policy", absent), ("detokenize", absent, "1"), ("compare", absent, absent, "--policy", POLICY),
                        ("observe", absent, "--cases", absent, "-o", self.work / "x")):
            error = self.refused(3, LINE.fullmatch(self.slm(*command).stderr.decode())[1], *command)  # type: ignore[index]
            self.assertEqual(error["code"], "NOT-FOUND", command)
            self.assertEqual(error["file"], str(absent), command)
        for command in (("inspect", self.source), ("run", self.source, "a"),
                        ("convert", self.artifact, "-o", self.work / "x")):
            self.assertIn("directory", self.refused(3, "UNSUPPORTED", *command)["message"])
        empty = self.work / "empty-folder"
        empty.mkdir(exist_ok=True)
        self.assertEqual(self.refused(3, "TPL-MISSING", "render", empty, stdin=b"{}")["file"], str(empty))
        self.refused(3, "NOT-FOUND", "tokenize", empty, "a")

    def test_a_fifo_without_a_writer_is_refused_not_waited_for(self) -> None:
        fifo = self.work / "idle.fifo"
        if not fifo.exists():
            os.mkfifo(fifo)
        self.refused(3, "UNSUPPORTED", "inspect", fifo)

    def test_ids_of_nodes(self) -> None:
        self.refused(3, "NOT-FOUND", "show", "0" * 64)
        self.refused(3, "NOT-FOUND", "verify", "0" * 64)
        self.refused(3, "NOT-FOUND", "report", "0" * 64, "-o", self.work / "r.html")
        self.refused(2, "USAGE", "verify", "not-hex")
        other = [SLM, "--store", str(self.work / "no-store"), "log"]
        done = subprocess.run(other, capture_output=True, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertFalse((self.work / "no-store").exists())

    def test_places_of_refusals(self) -> None:
        error = self.refused(3, "CTX-LENGTH", "run", self.artifact, "a" * 40)
        self.assertIn("32", error["message"])
        error = self.refused(3, "TOK-UNKNOWN-ID", "detokenize", self.source, "5000")
        self.assertIn("5000", error["message"])
        self.assertIn("file", error)
        error = self.refused(3, "UTF8", "tokenize", self.source, stdin=b"ab\xff")
        self.assertEqual(error["byte_offset"], 2)
        for changes, code in (({"vocab_size": 17}, "CFG-VOCAB-SHAPE"), ({"hidden_act": "tanhh"}, "CFG-VALUE"),
                              ({"rms_norm_eps": "x"}, "CFG-TYPE"), ({"num_hidden_layers": 2}, "MAP-MISSING"),
                              ({"tie_word_embeddings": True}, "CFG-TIED")):
            with self.subTest(code):
                source = pathlib.Path(tempfile.mkdtemp(dir=self.work)) / "s"
                tiny_source.write(source, **changes)
                done = self.slm("--json", "convert", source, "-o", self.work / "never.slm")
                self.assertEqual(done.returncode, 3)
                error = json.loads(done.stdout)["error"]
                self.assertEqual(error["code"], code)
                self.assertTrue(error.get("file"), error)
                self.assertTrue("field" in error or "byte_offset" in error, error)
                self.assertFalse((self.work / "never.slm").exists())


def struct_header() -> bytes:
    return (8).to_bytes(8, "little") + b"{}      "


class Running(Case):
    def test_the_chain_is_walked(self) -> None:
        answer = self.json("run", self.artifact, "a")
        self.assertEqual(answer["prompt_ids"], [0])
        self.assertEqual(answer["tokens"], [1, 2, 3, 4, 5, 6, tiny_source.EOS])
        self.assertEqual((answer["text"], answer["stop_reason"]), ("éb€", "eos"))
        self.assertEqual(base64.b64decode(answer["bytes"]), "éb€".encode())
        self.assertEqual(self.ok("run", self.artifact, "a"), "éb€\n")
        self.assertEqual(self.json("run", self.artifact, "c")["stop_reason"], "context")
        self.assertEqual(self.json("run", self.artifact, "a", "--max-new-tokens", 2)["stop_reason"], "length")
        self.assertEqual(self.ok("run", self.artifact, "a", "--chat"), "éb€\n")
        self.assertEqual(self.ok("run", self.artifact, "-", stdin=b"a"), "éb€\n")

    def test_streamed_text_never_ends_inside_a_character(self) -> None:
        for n in range(8):  # what is incomplete comes at the end of the run, as the bytes that it is
            done = self.slm("run", self.artifact, "a", "--max-new-tokens", n)
            self.assertEqual(done.stdout, "éb€".encode()[:n] + b"\n")
            answer = self.json("run", self.artifact, "a", "--max-new-tokens", n)
            self.assertEqual(base64.b64decode(answer["bytes"]), "éb€".encode()[:n])
            self.assertEqual("text" in answer, n in (0, 2, 3, 6, 7))
            self.assertEqual(any("UTF-8" in w for w in answer["warnings"]), "text" not in answer)
        process = subprocess.Popen(self.command("run", self.artifact, "a"), stdout=subprocess.PIPE)
        assert process.stdout
        seen = b""
        while chunk := os.read(process.stdout.fileno(), 1):
            seen += chunk
        process.stdout.close()
        self.assertEqual((process.wait(timeout=30), seen.decode()), (0, "éb€\n"))

    def writes_of(self, *arguments: object) -> list[bytes] | None:
        """What each write system call put on standard output; none where it cannot be watched."""
        if shutil.which("strace") is None:
            return None
        log = self.work / "strace"
        done = subprocess.run(["strace", "-f", "-xx", "-e", "trace=write", "-s", "4096", "-o", str(log),
                               *self.command(*arguments)], capture_output=True, check=False)
        if done.returncode != 0:
            return None
        found = re.findall(r'write\(1, "((?:\\x[0-9a-f]{2})*)"', log.read_text())
        return [bytes.fromhex(text.replace("\\x", "")) for text in found]

    def test_each_write_is_whole_characters(self) -> None:
        writes = self.writes_of("run", self.artifact, "a")
        if writes is None:
            self.skipTest("strace is not installed, or may not trace")
        self.assertEqual([w.decode() for w in writes], ["é", "b", "€", "\n"])

    def test_a_record_binds_the_run(self) -> None:
        """RUN-01, RUN-04."""
        answer = self.json("run", self.artifact, "a", "--record")
        node = self.json("show", answer["run"])
        self.assertEqual(node["type"], "run")
        children = {edge["role"]: edge["child"] for edge in node["edges"]}
        self.assertEqual(sorted(children), ["artifact", "backend-profile", "runtime-build", "template", "tokenizer"])
        for role, child in children.items():
            self.assertEqual(self.json("show", child)["type"], role)
        artifact = self.json("show", children["artifact"])
        self.assertEqual(artifact["metadata"]["root"], node["metadata"]["artifact_root"])
        for role in ("tokenizer", "template"):
            self.assertIn({"role": role, "child": children[role]}, artifact["edges"])
        data = node["metadata"]
        self.assertEqual((data["stop_reason"], data["input_kind"]), ("eos", "utf8"))
        self.assertEqual(data["sampling"]["profile"], "slm.sampling.v1")
        self.assertEqual(data["sampling"]["temperature"], {"hex": "00" * 8})
        self.assertEqual(data["kv"], {"dtype": "f32", "layout": "layer,kv_head,position,head_dim", "n_layers": 1,
                                      "n_kv_heads": 1, "head_dim": tiny_source.SIZE, "begin": 0, "count": 7})
        self.assertEqual(self.blob(data["raw_blob"]), "éb€<end>".encode())
        self.assertEqual(self.blob(data["visible_blob"]), "éb€".encode())
        self.assertEqual(self.blob(data["tokens_blob"])[::4], bytes([1, 2, 3, 4, 5, 6, tiny_source.EOS]))
        self.assertEqual(self.blob(data["input_blob"]), b"a")
        self.assertEqual(len(self.blob(data["logits_blob"])), 7 * tiny_source.SIZE * 4)
        self.assertEqual(data["warnings"], answer["warnings"])
        self.assertEqual(len(data["warnings"]), 1)
        self.assertIn("chat template", data["warnings"][0])
        again = self.json("run", self.artifact, "a", "--record")
        self.assertEqual(again["run"], answer["run"])  # no clock, no host
        self.assertTrue(json.loads(self.ok("--json", "fsck"))["clean"])

    def test_every_place_says_who_emits_bos_and_eos(self) -> None:
        """TPL-05: the demo model's template writes <|bos|> (id 0), and its post-processor puts one before plain text."""
        demo = self.work / "demo.slm"
        self.ok("convert", ROOT / "models" / "slm-demo", "-o", demo)
        for chat, emitter in (([], "tokenizer"), (["--chat"], "template")):
            with self.subTest(emitter):
                answer = self.json("run", demo, "Once", *chat, "--max-new-tokens", "1", "--record")
                self.assertEqual(answer["prompt_ids"].count(0), 1)
                said = answer["special_tokens"]
                bos = said["bos"]
                self.assertEqual((bos["token"], bos["emitted_by"], bos["suppressed"], bos["would_double"], bos["doubled"]),
                                 ("<|bos|>", emitter, bool(chat), bool(chat), False))
                self.assertEqual(said["tokenizer"], {"prefix": ["<|bos|>"], "suffix": [], "adds": not chat})
                self.assertEqual(said["eos"]["emitted_by"], "template" if chat else "none")
                kept = self.json("show", answer["run"])["metadata"]["special_tokens"]
                self.assertEqual((kept["bos"]["emitted_by"], kept["bos"]["suppressed"], kept["tokenizer_adds"]), (emitter, bool(chat), not chat))
                done = self.slm("run", demo, "Once", *chat, "--max-new-tokens", "1", "--explain")
                self.assertIn(f"BOS |<|bos|>|: the {emitter}, once", done.stderr.decode())
        spoken = self.slm("chat", demo, "--max-new-tokens", "1", "--explain", stdin=b"Once\n")
        self.assertIn("BOS |<|bos|>|: the template, once; the tokenizer puts one around plain text and is told not to here\n", spoken.stderr.decode())
        context = json.dumps({"messages": [{"role": "user", "content": "Once"}], "add_generation_prompt": True}).encode()
        self.assertEqual(self.json("render", demo, "--explain", stdin=context)["special_tokens"], said)
        twice = self.json("run", demo, "<|bos|>Once", "--max-new-tokens", "1")
        self.assertEqual((twice["prompt_ids"][:2], twice["special_tokens"]["bos"]["doubled"]), ([0, 0], True))
        self.assertNotIn("special_tokens", self.json("run", demo, "--ids", "0,1", "--max-new-tokens", "1"))

    def blob(self, value: dict) -> bytes:
        digits = value["hex"]
        return (self.work / "store" / "objects" / "sha256" / digits[:2] / digits).read_bytes()

    def test_warnings(self) -> None:
        self.assertEqual(self.json("run", self.artifact, "a", "--chat")["warnings"], [])
        full = self.json("run", self.artifact, "c", "--chat", "--record")
        self.assertIn("context was full", full["warnings"][0])
        node = self.json("show", full["run"])
        self.assertEqual(node["metadata"]["warnings"], full["warnings"])
        self.assertIn("rendered_blob", node["metadata"])

    def test_a_store_without_the_artifact_takes_no_record(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([SLM, "--store", folder + "/s", "run", str(self.artifact), "a", "--record"],
                                  capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("convert the source into this store first", done.stderr)


    def overflowing(self, folder: pathlib.Path) -> pathlib.Path:
        """The chain with queries past float32: finite weights, and infinity at the first position."""
        source = tiny_source.write(folder / "overflow")
        weights = source / "model.safetensors"
        data = bytearray(weights.read_bytes())
        (size,) = struct.unpack("<Q", data[:8])
        begin, end = json.loads(data[8:8 + size])["model.layers.0.self_attn.q_proj.weight"]["data_offsets"]
        data[8 + size + begin:8 + size + end] = struct.pack("<f", 3e38) * ((end - begin) // 4)
        weights.write_bytes(data)
        return source

    def test_a_run_that_an_error_ends_is_recorded_with_it(self) -> None:
        """RUN-01: errors are part of what a run binds."""
        with tempfile.TemporaryDirectory() as folder:
            artifact = pathlib.Path(folder) / "overflow.slm"
            self.ok("convert", self.overflowing(pathlib.Path(folder)), "-o", artifact)
            done = self.slm("run", artifact, "--ids", "0,1", "--record")
            self.assertEqual((done.returncode, done.stdout), (3, b""))
            first, last = done.stderr.decode().splitlines()
            self.assertRegex(last, f"^error NONFINITE at {artifact}: ")
            node = self.json("show", first.removeprefix("run "))
        data = node["metadata"]
        self.assertEqual(data["stop_reason"], "error")
        self.assertEqual([(e["code"], e["field"]) for e in data["errors"]], [("NONFINITE", "layers.0.attn.q")])
        self.assertEqual(self.blob(data["prompt_ids_blob"]), struct.pack("<2I", 0, 1))
        self.assertNotIn("tokens_blob", data)
        self.assertEqual(self.json("show", self.json("run", self.artifact, "a", "--record")["run"])["metadata"]["errors"], [])

    def test_a_damaged_artifact_is_named_and_not_the_prompt(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            damaged = pathlib.Path(folder) / "damaged.slm"
            data = bytearray(self.artifact.read_bytes())
            at = data.rindex(struct.pack("<f", 1.0))  # in the last tensor
            data[at] ^= 1
            damaged.write_bytes(data)
            error = self.refused(3, "SLM-CHUNK", "run", damaged, "a")
            self.assertEqual(error["file"], str(damaged))
            [answer] = self.batch("run", damaged, lines=b'{"id":1,"text":"a"}\n')
            self.assertEqual((answer["error"]["code"], answer["error"]["file"]), ("SLM-CHUNK", str(damaged)))


class Acquisitions(Case):
    """An acquisition's id stands for the source (cli.md, "What stands for what")."""

    def test_an_id_reads_as_its_directory_does(self) -> None:
        acquired = self.json("acquire", self.source, "--name", "chain", "--revision", "r1")["acquisition"]
        context = json.dumps({"messages": [{"role": "user", "content": "ab"}]}).encode()
        for name in (acquired, acquired[:12]):
            self.assertEqual(self.json("tokenize", name, "ab"), self.json("tokenize", self.source, "ab"))
            self.assertEqual(self.json("detokenize", name, "0", "3"), self.json("detokenize", self.source, "0", "3"))
            self.assertEqual(self.json("render", name, stdin=context), self.json("render", self.source, stdin=context))
            self.assertEqual(self.ok("render", name, "--explain", stdin=context),
                             self.ok("render", self.source, "--explain", stdin=context))
            self.assertTrue(self.json("tokenize", self.source, name, "--compare")["equal"])

    def test_what_is_no_acquisition_is_refused(self) -> None:
        self.assertEqual(self.refused(3, "NOT-FOUND", "tokenize", "0123456789ab", "a")["file"], "0123456789ab")
        self.refused(3, "NOT-FOUND", "render", "no-such-folder")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([SLM, "--store", folder + "/s", "tokenize", "0123abcd", "a"], capture_output=True, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn("name the store with --store", done.stderr)


class Sampling(Case):
    """SMP-01, SMP-02, SMP-03, SMP-04 through the command line; expectations from independent/sampler.py."""

    def first_token(self, seed: int, **options: object) -> dict:
        record = {"id": seed, "text": "a", "max_new_tokens": 1, "logits": "last", "trace": True,
                  "sampling": {"seed": seed, "turn": 3, **options}}
        return self.batch("run", self.artifact, lines=json.dumps(record).encode())[0]

    def test_the_first_token_is_the_independent_samplers(self) -> None:
        for seed in (0, 1, 7, 2**32 + 5, 2**64 - 1):
            answer = self.first_token(seed, temperature=2.5, top_k=9, top_p=0.9, repetition_penalty=1.25)
            values = struct.unpack(f"<{tiny_source.SIZE}f", base64.b64decode(answer["logits"]["f32"]))
            options = sampler.Options(temperature=2.5, top_k=9, top_p=0.9, penalty=1.25, seed=seed, turn=3)
            want = sampler.sample(options, list(values), answer["prompt_ids"], [], 0).split()
            trace = answer["trace"][0]
            self.assertEqual(answer["tokens"], [int(want[0])])
            self.assertEqual([trace["n_after_top_k"], trace["n_after_top_p"], trace["n_after_min_p"]], [int(w) for w in want[4:7]])
            self.assertEqual(f"{trace['draw']:08x}", want[7])
            survivors = [f"{t['id']}:{sampler.float_bits(t['logit']):08x}:{sampler.double_bits(t['probability']):016x}"
                         for t in trace["survivors"]]
            self.assertEqual(survivors, want[10:])

    def test_a_seed_gives_the_same_text_on_the_command_line_and_in_a_batch(self) -> None:
        options = ("--temperature", "4", "--top-k", "12", "--seed", "42", "--ignore-eos", "--max-new-tokens", "12")
        first = self.json("run", self.artifact, "a", *options)
        self.assertEqual(self.json("run", self.artifact, "a", *options)["tokens"], first["tokens"])
        record = {"id": 1, "text": "a", "max_new_tokens": 12, "stop_at_eos": False,
                  "sampling": {"temperature": 4, "top_k": 12, "seed": 42}}
        self.assertEqual(self.batch("run", self.artifact, lines=json.dumps(record).encode())[0]["tokens"], first["tokens"])
        seeds = {tuple(self.first_token(seed, temperature=50)["tokens"]) for seed in range(12)}
        self.assertGreater(len(seeds), 3)

    def test_a_record_without_a_limit_has_that_of_the_command(self) -> None:
        record = {"id": 1, "ids": [0], "stop_at_eos": False}
        answer = self.batch("run", self.artifact, lines=json.dumps(record).encode())[0]
        self.assertEqual(answer["tokens"], self.json("run", self.artifact, "--ids", "0", "--ignore-eos")["tokens"])
        self.assertTrue(answer["tokens"])

    def test_a_clock_is_a_time_even_where_the_template_asks_for_none(self) -> None:
        records = [{"id": i, "template": "x", "context": {"messages": []}, "clock": clock}
                   for i, clock in enumerate(("nope", "2026-02-30", "2026-11-30T12:00:00"))]
        answers = self.batch("render", self.artifact, lines="\n".join(map(json.dumps, records)).encode())
        self.assertEqual([a.get("error", {}).get("code") for a in answers], ["TPL-INPUT", "TPL-INPUT", None])

    def test_stop_strings(self) -> None:
        """Across tokens and inside them; raw ids are kept, the visible text ends before the match."""
        for stop, text, tokens in ((["b"], "é", [1, 2, 3]), (["éb"], "", [1, 2, 3]), (["b€"], "é", [1, 2, 3, 4, 5, 6]),
                                   (["x", "€"], "éb", [1, 2, 3, 4, 5, 6]), (["b€x"], "éb€", [1, 2, 3, 4, 5, 6, tiny_source.EOS])):
            record = {"id": 1, "text": "a", "max_new_tokens": 20, "stop": stop}
            answer = self.batch("run", self.artifact, lines=json.dumps(record).encode())[0]
            self.assertEqual((answer["text"], answer["tokens"]), (text, tokens))
            self.assertEqual(answer["stop_reason"], "eos" if tokens[-1] == tiny_source.EOS else "stop_string")
            arguments = [word for one in stop for word in ("--stop", one)]
            self.assertEqual(self.ok("run", self.artifact, "a", *arguments), text + "\n")
        record = {"id": 1, "text": "a", "max_new_tokens": 20, "stop": "b"}
        self.assertEqual(self.batch("run", self.artifact, lines=json.dumps(record).encode())[0]["text"], "é")

    def test_min_new_tokens_and_bans(self) -> None:
        answer = self.json("run", self.artifact, "€", "--min-new-tokens", "2", "--max-new-tokens", "3")
        self.assertNotIn(tiny_source.EOS, answer["tokens"][:2])
        answer = self.json("run", self.artifact, "a", "--ban", "1", "--max-new-tokens", "4")
        self.assertNotIn(1, answer["tokens"])

    def test_refusals(self) -> None:
        for option, value, name in (("--temperature", "-0.5", "temperature"), ("--top-p", "1.5", "top_p"),
                                    ("--min-p", "-1", "min_p"), ("--repetition-penalty", "0", "repetition_penalty")):
            self.assertEqual(self.refused(2, "SMP-VALUE", "run", self.artifact, "a", f"{option}={value}")["field"], name)
        self.assertEqual(self.refused(2, "SMP-VALUE", "run", self.artifact, "a", "--ban", "16")["field"], "bans")
        self.refused(2, "SMP-VALUE", "run", self.artifact, "a", "--stop", "")
        everything = ",".join(str(i) for i in range(tiny_source.SIZE))
        self.refused(3, "SMP-MASKED", "run", self.artifact, "a", "--ban", everything)
        for sampling, code, field in (({"temperature": -1}, "SMP-VALUE", "temperature"), ({"top_p": 2}, "SMP-VALUE", "top_p"),
                                      ({"temperatur": 1}, "CASE-SCHEMA", "sampling.temperatur"),
                                      ({"top_k": -1}, "CASE-SCHEMA", "sampling.top_k"),
                                      ({"seed": 2**64}, "CASE-SCHEMA", "sampling.seed"),
                                      ({"repetition_penalty": 0}, "CASE-SCHEMA", "sampling.repetition_penalty"),
                                      ({"bans": [99]}, "SMP-VALUE", "bans"), ("hot", "CASE-SCHEMA", "sampling")):
            record = {"id": 1, "text": "a", "max_new_tokens": 1, "sampling": sampling}
            error = self.batch("run", self.artifact, lines=json.dumps(record).encode())[0]["error"]
            self.assertEqual((error["code"], error["field"]), (code, field))

    def test_a_record_keeps_the_trace(self) -> None:
        """RUN-01: filters, PRNG states and draws of every token."""
        answer = self.json("run", self.artifact, "a", "--temperature", "3", "--seed", "9", "--record", "--max-new-tokens", "5")
        data = self.json("show", answer["run"])["metadata"]
        self.assertEqual(data["sampling"]["temperature"], {"hex": struct.pack("<d", 3.0).hex()})
        blob = self.work / "store" / "objects" / "sha256" / data["trace_blob"]["hex"][:2] / data["trace_blob"]["hex"]
        steps = [json.loads(line) for line in blob.read_text().splitlines()]
        self.assertEqual([step["id"] for step in steps], answer["tokens"])
        self.assertEqual([step["counter"] for step in steps], [[0, i, 0, 0] for i in range(len(steps))])
        self.assertEqual([step["key"] for step in steps], [[9, 0]] * len(steps))

    def test_traces_stand_beside_the_text(self) -> None:
        done = self.slm("run", self.artifact, "a", "--trace", "--max-new-tokens", "2")
        self.assertEqual(done.stdout.decode(), "é\n")
        self.assertEqual([json.loads(line)["id"] for line in done.stderr.decode().splitlines()], [1, 2])


class Chat(Case):
    def test_a_conversation_from_a_pipe(self) -> None:
        self.assertEqual(self.ok("chat", self.artifact, stdin=b"a\n"), "éb€\n")
        self.assertEqual(self.ok("chat", self.artifact, stdin=b"a\r\n\nab"), "éb€\n€\n")
        # The second prompt holds the first turn, whatever was kept of it: the same answer as from nothing.
        self.assertEqual(self.ok("chat", self.artifact, stdin=b"a\n/reset\na\n/quit\na\n"), "éb€\néb€\n")
        self.assertEqual(self.ok("chat", self.artifact, "--system", "b", stdin=b"a\n"), "éb€\n")

    def test_refusals(self) -> None:
        self.refused(2, "USAGE", "chat")
        self.assertEqual(self.slm("--json", "chat", self.artifact).returncode, 2)
        done = self.slm("chat", self.artifact, stdin=b"\xff\n")
        self.assertEqual((done.returncode, done.stderr.decode().split()[1]), (3, "UTF8"))
        done = self.slm("chat", self.artifact, stdin=b"a" * 40 + b"\n")
        self.assertEqual((done.returncode, done.stderr.decode().split()[1]), (3, "CTX-LENGTH"))
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            source = tiny_source.write(pathlib.Path(folder) / "base", template=None)
            base = pathlib.Path(folder) / "base.slm"
            self.ok("convert", source, "-o", base)
            done = self.slm("chat", base)  # a conversation has no JSON form
            self.assertEqual((done.returncode, done.stderr.decode().split()[1]), (3, "TPL-MISSING"))


class Smoke(Case):
    def test_log_show_inspect(self) -> None:
        log = self.json("log")
        self.assertEqual([r["seq"] for r in log["records"]], list(range(1, len(log["records"]) + 1)))
        self.assertEqual(log["records"][0]["kind"], "acquisition")
        last = self.json("log", "--limit", 1)["records"]
        self.assertEqual(last, log["records"][-1:])
        self.assertIn("acquisition", self.ok("log"))
        id_ = log["records"][0]["nodes"][0]["id"]
        self.assertEqual(self.json("show", id_[:16])["id"], id_)
        self.assertIn("source-tree", self.ok("show", id_, "--depth", 2))
        self.assertTrue(self.ok("show", id_, "--depth", 0).startswith(id_))
        self.assertIn("artifact", self.ok("inspect", self.artifact))
        self.json("inspect", self.artifact)
        self.ok("inspect", self.artifact, "--explain")

    def test_explain_shows_four_columns_where_declarations_differ(self) -> None:
        """LVL-02: no epsilon declared; two sets of EOS, of which a person's statement takes one; frequencies left open.

        The pinned column is read off Transformers 5.24.0: configuration_llama.py defaults rms_norm_eps to 1e-6, and
        generation stops at the ids of generation_config.json.
        """
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            source = tiny_source.write(pathlib.Path(folder) / "differs", eos_token_id=9)
            config = json.loads((source / "config.json").read_text())
            del config["rms_norm_eps"]
            (source / "config.json").write_text(json.dumps(config))
            out = pathlib.Path(folder) / "differs.slm"
            message = self.refused(3, "CFG-CONFLICT-EOS", "convert", source, "-o", out)["message"]
            statement = pathlib.Path(folder) / "statement.json"
            statement.write_text(json.dumps({
                "schema": "slm.decision.v1", "kind": "accept-conflict", "reviewer": "test", "reason": "test",
                "applies_to": [message.split("Conflict ")[1][:64]], "choice": "generation_config.json#$.eos_token_id"}))
            self.ok("convert", source, "-o", out, "--accept-conflict", statement)
            manifest = self.json("inspect", out)["manifest"]
            text = self.ok("inspect", out, "--explain")
        columns = {one["field"]: one for one in manifest["config_columns"]}
        for field, publisher, pinned, undefined, choice in (
                ("norm_eps", r"not declared", r"models/llama/configuration_llama\.py:\d+: default 1e-06\b.*", "", "1e-06"),
                ("eos_token_ids", r"config\.json: eos_token_id = 9; generation_config\.json: eos_token_id = 8",
                 r"generation/utils\.py:\d+: the set of generation_config\.json", "", r"\[8\]"),
                ("rope_theta", r"config\.json: rope_theta = 10000\.0", r".*: as declared", "", "10000"),
                ("rope_inv_freq", "not declared", r"models/llama/modeling_llama\.py:\d+.*", r".*differs between processors.*",
                 r".*correctly rounded.*")):
            for column, wanted in (("publisher", publisher), ("pinned", pinned), ("undefined", undefined), ("choice", choice)):
                self.assertRegex(columns[field][column], rf"\A{wanted}\Z", (field, column))
            shown = re.search(rf"^  {field}\n((?:    .*\n)+)", text, re.MULTILINE)
            assert shown is not None
            self.assertEqual(dict(line.split(maxsplit=1) for line in shown[1].splitlines()),
                             {column: columns[field][column] for column in ("publisher", "pinned", "undefined", "choice")
                              if columns[field][column]})
        self.assertEqual([(one["code"], one["field"]) for one in manifest["accepted_conflicts"]],
                         [("CFG-CONFLICT-EOS", "eos_token_id")])

    def test_observe_and_compare(self) -> None:
        cases = self.work / "smoke.jsonl"
        cases.write_text('{"id":"one","ids":[0],"max_new_tokens":2}\n{"id":"two","text":"ab"}\n')
        out = self.work / "smoke.golden"
        first = self.json("observe", self.artifact, "--cases", cases, "-o", out)
        self.assertEqual((first["cases"], first["bytes"]), (2, out.stat().st_size))
        again = self.json("observe", self.artifact, "--cases", cases, "-o", out)
        self.assertEqual(again["sha256"], first["sha256"])

    def test_a_merge_that_stands_twice_is_settled_in_the_librarys_favour(self) -> None:
        """ACQ-12: the library counts the last one. Without the statement nothing is converted, with it all commands agree."""
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            source = pathlib.Path(folder) / "twice"
            shutil.copytree(DEMO, source)
            tokenizer = json.loads((source / "tokenizer.json").read_text())
            merges = tokenizer["model"]["merges"]
            merges.append(merges[4])
            (source / "tokenizer.json").write_text(json.dumps(tokenizer))
            out = pathlib.Path(folder) / "twice.slm"
            message = self.refused(3, "TOK-MERGE-DUP", "convert", source, "-o", out)["message"]
            self.assertIn("tokenizer.json#$.model.merges[4]", message)
            statement = pathlib.Path(folder) / "statement.json"
            statement.write_text(json.dumps({
                "schema": "slm.decision.v1", "kind": "accept-conflict", "reviewer": "test", "reason": "test",
                "applies_to": [message.split("Conflict ")[1][:64]],
                "choice": f"tokenizer.json#$.model.merges[{len(merges) - 1}]"}))
            self.ok("convert", source, "-o", out, "--accept-conflict", statement)
            accepted = self.json("inspect", out)["manifest"]["accepted_conflicts"]
            self.assertIn(("TOK-MERGE-DUP", "merges"), [(one["code"], one["field"]) for one in accepted])
            text = "what is the weather today?"
            ids = self.json("tokenize", source, text, "--lenient")["ids"]
            self.assertNotEqual(ids, self.json("tokenize", DEMO, text)["ids"])
            self.assertEqual(self.json("tokenize", out, text)["ids"], ids)
            self.assertEqual(self.json("run", out, text, "--max-new-tokens", 1)["prompt_ids"], ids)

    def test_runs_ignore_truncation_and_padding_of_the_file(self) -> None:
        """Transformers 5.24 switches both off at each call; `slm tokenize` does as the library does."""
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            source = pathlib.Path(folder) / "cut"
            shutil.copytree(DEMO, source)
            tokenizer = json.loads((source / "tokenizer.json").read_text())
            tokenizer["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
            tokenizer["padding"] = {"strategy": {"Fixed": 6}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 3,
                                    "pad_type_id": 0, "pad_token": "x"}
            (source / "tokenizer.json").write_text(json.dumps(tokenizer))
            out = pathlib.Path(folder) / "cut.slm"
            self.ok("convert", source, "-o", out)
            text = "what is the weather today?"
            self.assertEqual(len(self.json("tokenize", out, text)["ids"]), 6)
            self.assertEqual(self.json("run", out, text, "--max-new-tokens", 1)["prompt_ids"],
                             self.json("tokenize", DEMO, text)["ids"])

    def test_a_case_that_cannot_run_is_named_with_its_place(self) -> None:
        cases, out = self.work / "unrunnable.jsonl", self.work / "unrunnable.golden"
        first = '{"id":"a","ids":[0]}\n'
        cases.write_text(first + '{"id":"b","ids":[999]}\n')
        error = self.refused(3, "RUN-TOKEN", "observe", self.artifact, "--cases", cases, "-o", out)
        self.assertEqual((error["file"], error["byte_offset"]), (str(cases), len(first)))
        self.assertIn("case b", error["message"])
        self.assertFalse(out.exists())

    def test_exit_statuses_of_the_chain(self) -> None:
        reference = VECTORS / "reference.golden"
        chain = ("promote", DEMO, "--cases", VECTORS / "cases.jsonl", "--policy", POLICY, "--evidence", reference,
                 "--evidence", VECTORS / "truth.golden", "--evidence", VECTORS / "source.golden")
        promoted = self.slm("--json", *chain, "-o", self.work / "out")
        self.assertEqual(promoted.returncode, 0, promoted.stderr)
        receipt = json.loads(promoted.stdout)["receipt"]
        self.json("verify", receipt)
        self.assertEqual(self.refused(2, "USAGE", "verify", receipt, "--claim", "L99")["code"], "USAGE")
        page = self.work / "report.html"
        report = self.json("report", receipt, "-o", page, "--junit", self.work / "junit.xml")
        native, *others = report["backends"]
        self.assertEqual((native["backend"], native["receipt"]), ("native-scalar", receipt))
        self.assertEqual([column["receipt"] for column in others], [None] * 3)
        self.assertEqual({state for column in others for state in column["claims"].values()}, {"not-claimed"})
        self.refused(2, "USAGE", "report", receipt, "--backend", receipt, "-o", page)
        self.refused(3, "NODE-TYPE", "report", receipt, "--backend", self.json("show", receipt)["edges"][0]["child"], "-o", page)
        self.assertIn("<html", page.read_text())
        for path in (self.work, self.work / "absent" / "r.html"):
            self.assertEqual(self.refused(4, "IO", "report", receipt, "-o", path)["file"], str(path))
        self.refused(2, "USAGE", "report", receipt, "-o", next((self.work / "store" / "log").iterdir()))
        candidate = self.work / "out" / "candidate.golden"
        self.json("compare", reference, VECTORS / "truth.golden", VECTORS / "source.golden", candidate, "--policy",
                  POLICY)
        other = self.work / "chain.golden"
        self.ok("observe", self.artifact, "--cases", self.one_case(), "-o", other)
        different = self.slm("--json", "compare", candidate, other, "--policy", POLICY)
        self.assertIn(different.returncode, (1, 3), different.stderr)
        json.loads(different.stdout)
        self.refused(2, "USAGE", *chain[:-1], candidate, "-o", self.work / "out")
        self.json("fsck")
        self.refused(2, "USAGE", "report", receipt, "-o", page, "--junit", self.work / "." / "report.html")
        self.assertEqual(self.refused(3, "UNSUPPORTED", *chain, "--backend", "native-vector")["field"], "--backend")
        again = self.slm("--json", *chain, "--backend", "native-scalar")
        self.assertEqual(json.loads(again.stdout)["receipt"], receipt)
        self.a_damaged_bundle_fails(receipt)
        self.a_bundle_alone_is_enough(receipt)

    def a_damaged_bundle_fails(self, receipt: str) -> None:
        """LVL-05: also where the store has what was damaged."""
        bundle = self.work / "receipt.bundle"
        self.ok("export", receipt, "--format", "bundle", "-o", bundle)
        whole = self.json("verify", bundle)
        self.assertEqual([one["state"] for one in whole["claims"] if one["claim"] == "bundle"], ["holds"])
        data = bundle.read_bytes()
        # Most damage breaks the order of the objects and is refused; some does not, and the store has the object.
        for place in range(len(data) // 400, len(data), len(data) // 400):
            bundle.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1:])
            done = self.slm("--json", "verify", bundle)
            self.assertIn(done.returncode, (1, 3), place)
            if done.returncode == 1:
                break
        claims = json.loads(done.stdout)["claims"]
        self.assertEqual({one["claim"] for one in claims if one["state"] == "fails"}, {"bundle"})

    def a_bundle_alone_is_enough(self, receipt: str) -> None:
        """Without a store: the source is judged again and everything runs again from the bundle's objects."""
        bundle = self.work / "alone.bundle"
        self.ok("export", receipt, "--format", "bundle", "-o", bundle)
        stored = self.json("verify", receipt, "--rerun")
        nowhere = self.work / "no-store"
        done = subprocess.run([SLM, "--json", "--store", nowhere, "verify", bundle, "--rerun"],
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        alone = json.loads(done.stdout)
        self.assertFalse(nowhere.exists())
        self.assertEqual([one for one in alone["claims"] if one["claim"] != "bundle"], stored["claims"])
        self.assertEqual({one["claim"] for one in alone["claims"] if one["state"] == "holds"}
                         & {"license", "conflicts", "rerun convert", "rerun observe", "rerun build"},
                         {"license", "conflicts", "rerun convert", "rerun observe", "rerun build"})

    def test_help_of_what_is_no_command_is_refused(self) -> None:
        for name in ("frob", "bisect", "gc"):
            self.refused(2, "USAGE", name, "--help")
        self.assertIn("slm.decision.v1", self.ok("acquire", "--help"))

    def test_observations_are_listed(self) -> None:
        """ORA-03: every name that inspect --explain prints can be asked for; another name says where they stand."""
        listed = self.ok("inspect", self.artifact, "--explain").split("\nobservations (", 1)[1].splitlines()[1:]
        names = [line.split()[0] for line in listed[:listed.index("")]]
        self.assertIn("layers.0.attn.q_rope", names)
        self.assertEqual(names[-1], "logits")
        out = self.work / "taps.golden"
        self.ok("observe", self.artifact, "--cases", self.one_case(), "--taps", ",".join(names), "-o", out)
        refusal = self.refused(3, "RUN-TAP", "observe", self.artifact, "--cases", self.one_case(), "--taps", "x", "-o", out)
        self.assertIn("inspect --explain", refusal["message"])

    def test_what_is_no_bundle_says_so(self) -> None:
        self.assertIn("no bundle", self.refused(3, "TAG_FORBIDDEN", "verify", self.artifact)["message"])

    def test_missing_mutant_builds_are_found_first(self) -> None:
        refusal = self.refused(3, "NOT-FOUND", "mutate", DEMO, "--cases", VECTORS / "cases.jsonl", "--evidence",
                               VECTORS / "reference.golden", "--policy", POLICY, "--expected",
                               ROOT / "tests" / "mutants" / "expected.json", "--builds", self.work / "none")
        self.assertTrue(refusal["file"].startswith(str(self.work / "none")))

    def test_two_kernels_are_compared_bit_by_bit(self) -> None:
        cases, scalar, vector = self.one_case(), self.work / "scalar.golden", self.work / "vector.golden"
        self.ok("observe", self.artifact, "--cases", cases, "-o", scalar)
        self.ok("observe", self.artifact, "--cases", cases, "-o", vector, "--backend", "native-vector")
        compared = self.json("compare", scalar, vector)
        self.assertEqual((compared["policy"]["name"], compared["first"]), ("bit-equal.exact-v1", None))

    def test_an_acquisition_has_its_name(self) -> None:
        acquired = self.json("acquire", DEMO, "--name", "a", "--revision", "b")["acquisition"]
        for option in ("--name", "--revision"):
            error = self.refused(2, "USAGE", "convert", acquired, option, "c", "-o", self.work / "named.slm")
            self.assertEqual(error["field"], option)

    def test_names_in_json_are_text(self) -> None:
        out = os.fsdecode(os.fsencode(self.work) + b"/\xff.slm")
        done = self.slm("--json", "convert", DEMO, "-o", out)
        self.assertTrue(json.loads(done.stdout.decode("utf-8"))["file"].endswith("\\xFF.slm"), done.stdout)
        os.unlink(out)

    def test_an_output_is_not_mixed_with_the_summary(self) -> None:
        for path in ("/dev/stdout", "/proc/self/fd/1"):
            self.refused(2, "USAGE", "convert", DEMO, "-o", path)  # standard output is a pipe here

    def one_case(self) -> pathlib.Path:
        path = self.work / "one.jsonl"
        path.write_text('{"id":"one","ids":[0],"max_new_tokens":1}\n')
        return path

    def test_progress_only_on_a_terminal(self) -> None:
        out = self.work / "progress.slm"
        done = self.slm("convert", DEMO, "-o", out)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        parent, child = pty.openpty()
        process = subprocess.Popen(self.command("convert", DEMO, "-o", out), stdout=subprocess.DEVNULL, stderr=child)
        os.close(child)
        shown = b""
        try:
            while chunk := os.read(parent, 4096):
                shown += chunk
        except OSError:
            pass  # the other side is closed
        os.close(parent)
        self.assertEqual(process.wait(timeout=30), 0)
        self.assertIn(b"100 %", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown[-40:])

    def test_a_limit_on_file_size_is_an_environment_fault(self) -> None:
        def limit() -> None:
            import signal  # in the child
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        done = self.slm("observe", self.artifact, "--cases", self.one_case(), "-o", self.work / "limited.golden",
                        preexec_fn=limit)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(b"File too large", done.stderr)
        self.assertFalse((self.work / "limited.golden").exists())


class CountedSkips(unittest.TextTestResult):
    """A case that skipped itself did not run, and tools/suites.py counts it by this line."""

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        print(f"not-run: cli: {test.id().removeprefix('__main__.')}: {reason}", flush=True)


def main() -> None:
    global SLM
    parser = argparse.ArgumentParser()
    parser.add_argument("--slm", required=True)
    args, rest = parser.parse_known_args()
    SLM = str(pathlib.Path(args.slm).resolve())
    unittest.main(argv=[sys.argv[0], *rest], testRunner=unittest.TextTestRunner(resultclass=CountedSkips))


if __name__ == "__main__":
    main()
