"""Forged receipts, every hash above the forgery made again: `slm verify` catches each (ID-07, LVL-01, LVL-05, TOL-03, ORA-02, ACQ-08,
ACQ-12).

    forge_test.py --slm SLM --source DIR

Promotes the shipped model, then writes forged objects straight into a copy of the store with the independent CBOR
reader, which shares nothing with the program, and verifies the forged receipt.
"""
import argparse
import hashlib
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from typing import Any, Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "independent"))
import p0cbor  # noqa: E402

DOMAIN = b"tinyrustlm-conformance-node-v1"
UNIT = 64


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


class Store:
    """Objects by hash; nothing is checked."""

    def __init__(self, root: pathlib.Path):
        self.root = root

    def _path(self, kind: str, digest: bytes) -> pathlib.Path:
        folder = self.root / ("nodes" if kind == "node" else "objects/sha256")
        example = next(path for path in folder.rglob("*") if path.is_file())
        name = digest.hex()
        return folder / name[:2] / (name if len(example.name) == 64 else name[2:])

    def read(self, kind: str, digest: bytes) -> bytes:
        return self._path(kind, digest).read_bytes()

    def write(self, kind: str, data: bytes) -> bytes:
        digest = sha256(data)
        path = self._path(kind, digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(data)
        return digest

    def node(self, digest: bytes) -> dict[str, Any]:
        data = self.read("node", digest)[len(DOMAIN):]
        end = next(i for i, byte in enumerate(data) if byte >= 0xA0)
        for size in range(len(data), end, -32):  # children are 32 bytes each, the map comes first
            try:
                metadata = p0cbor.decode(data[end:size])
            except ValueError:
                continue
            if len(metadata["edges"]) * 32 == len(data) - size:
                children = [data[i:i + 32] for i in range(size, len(data), 32)]
                return {"type": data[:end], "map": metadata, "children": children}
        raise SystemExit(f"cannot read node {digest.hex()}")

    def name(self, digest: bytes) -> None:
        """A log record that names the node, and the head that goes with it (docs/spec/store.md)."""
        path = self.root / "log" / "000001.slog"
        log, at, last, seq = path.read_bytes(), 0, b"", 0
        while at < len(log):
            end = at + 40 + struct.unpack_from("<I", log, at)[0]
            last, seq, at = log[at:end], seq + 1, end
        record = p0cbor.encode({"seq": seq + 1, "kind": "promotion", "nodes": [digest]})
        previous = sha256(last)
        length = struct.pack("<I", len(record))
        record = length + struct.pack("<I", crc32c(length + previous + record)) + previous + record
        path.write_bytes(log + record)
        (self.root / "refs" / "head").write_text(f"{seq + 1} {sha256(record).hex()}\n")

    def put(self, node: dict[str, Any]) -> bytes:
        return self.write("node", DOMAIN + node["type"] + p0cbor.encode(node["map"]) + b"".join(node["children"]))


def child(node: dict[str, Any], role: str, index: int = 0) -> bytes:
    return [c for r, c in zip(node["map"]["edges"], node["children"]) if r == role][index]


def drop_edge(node: dict[str, Any], role: str) -> None:
    i = node["map"]["edges"].index(role)
    del node["map"]["edges"][i], node["children"][i]


class Forger:
    def __init__(self, store: Store, receipt: bytes):
        self.store, self.receipt, self.moved = store, receipt, {}
        self.promotion = store.node(receipt)

    def replace(self, old: bytes, new: bytes) -> None:
        self.moved[old] = new

    def edit(self, role: str, change: Callable[[dict[str, Any]], None], index: int = 0) -> None:
        old = child(self.promotion, role, index)
        node = self.store.node(old)
        change(node)
        self.replace(old, self.store.put(node))

    def golden(self, blob: bytes, change: Callable[[dict[str, Any], list[bytes]], None]) -> tuple[bytes, bytes]:
        """A container with its envelope and blobs changed; hashes made again. Its blob hash and envelope hash."""
        data = self.store.read("blob", blob)
        start, length = struct.unpack("<QQ", data[-64:-48])
        envelope = p0cbor.decode(data[start:start + length])
        blobs = [data[b["offset"]:b["offset"] + b["size"]] for b in envelope["blobs"]]
        change(envelope, blobs)
        used = sorted({item["blob"] for item in [*envelope["model_observations"], *envelope["attachments"],
                       *(o for case in envelope["cases"] for o in case["observations"])]})
        renumbered = {old: new for new, old in enumerate(used)}
        for item in [*envelope["model_observations"], *envelope["attachments"],
                     *(o for case in envelope["cases"] for o in case["observations"])]:
            item["blob"] = renumbered[item["blob"]]
        out, envelope["blobs"] = bytearray(data[:UNIT]), []
        for old in used:
            envelope["blobs"].append({"offset": len(out), "size": len(blobs[old]), "sha256": sha256(blobs[old])})
            out += blobs[old]
            out += bytes(-len(out) % UNIT)
        envelope["identities"]["generator"] = sha256(p0cbor.encode(envelope["generator"]))
        encoded = p0cbor.encode(envelope)
        begin = len(out)
        out += encoded
        out += bytes(-len(out) % UNIT)
        size = len(out) + 64
        out += struct.pack("<QQ32sQ8s", begin, len(encoded), sha256(encoded), size, data[-8:])
        return self.store.write("blob", bytes(out)), sha256(encoded)

    def container(self, role: str, change: Callable[[dict[str, Any], list[bytes]], None], index: int = 0) -> None:
        def into(node: dict[str, Any]) -> None:
            node["map"]["blob"], node["map"]["envelope_sha256"] = self.golden(node["map"]["blob"], change)
        self.edit(role, into, index)

    def repoint(self, node: dict[str, Any]) -> None:
        """The node's children after what was replaced so far."""
        node["children"] = [self.moved.get(digest, digest) for digest in node["children"]]

    def finish(self) -> bytes:
        """Every parent of what was replaced, up to the receipt."""
        def rebuilt(digest: bytes) -> bytes:
            if digest in self.moved:
                return self.moved[digest]
            node = self.store.node(digest)
            children = [rebuilt(c) for c in node["children"]]
            if children != node["children"]:
                node["children"] = children
                self.moved[digest] = self.store.put(node)
            return self.moved.get(digest, digest)
        self.promotion["children"] = [rebuilt(c) for c in self.promotion["children"]]
        receipt = self.store.put(self.promotion)
        if receipt != self.receipt:
            self.store.name(receipt)
        return receipt


def fewer_cases(envelope: dict[str, Any], _: list[bytes]) -> None:
    del envelope["cases"][-1]


def flip_sign(envelope: dict[str, Any], blobs: list[bytes]) -> None:
    case = next(c for c in envelope["cases"] if any(o["name"] == "layers.0.output" for o in c["observations"]))
    item = next(o for o in case["observations"] if o["name"] == "layers.0.output")
    blobs.append(blobs[item["blob"]][:-1] + bytes([blobs[item["blob"]][-1] ^ 0x80]))
    item["blob"] = len(blobs) - 1


def flip_low_bit(envelope: dict[str, Any], blobs: list[bytes]) -> None:
    """Within every tolerance: no comparison sees it, running again does."""
    case = next(c for c in envelope["cases"] if any(o["name"] == "layers.0.output" for o in c["observations"]))
    item = next(o for o in case["observations"] if o["name"] == "layers.0.output")
    blobs.append(bytes([blobs[item["blob"]][0] ^ 1]) + blobs[item["blob"]][1:])
    item["blob"] = len(blobs) - 1


def attacks() -> dict[str, tuple[Callable[[Forger], None], str]]:
    """Name to what the forger does, and the code that must come of it."""
    def verdict(forger: Forger) -> None:
        forger.container("observation", flip_sign)

    def dropped_level(forger: Forger) -> None:
        forger.edit("comparison", lambda node: node["map"]["verdicts"].pop("l5"))
        forger.promotion["map"]["verdicts"].pop("l5")

    def other_backend(forger: Forger) -> None:
        forger.edit("backend-profile", lambda node: node["map"].update(name="native-avx512"))
        forger.promotion["map"]["backend"] = "native-avx512"

    def loose_policy(forger: Forger) -> None:
        def change(node: dict[str, Any]) -> None:
            text = forger.store.read("blob", node["map"]["blob"]).decode()
            policy = json.loads(text)
            for rule in policy["rules"]:
                if rule["role"] == "logits":
                    rule["atol"], rule["atol_basis"]["permitted"] = 1e-2, 1e-2
            node["map"]["blob"] = forger.store.write("blob", json.dumps(policy).encode())
        forger.edit("tolerance-policy", change)

    def truth_is_reference(forger: Forger) -> None:
        runs = [forger.store.node(c) for r, c in zip(forger.promotion["map"]["edges"], forger.promotion["children"])
                if r == "oracle-run"]
        reference = next(run for run in runs if run["map"]["mode"] == "reference")
        index = next(i for i, run in enumerate(runs) if run["map"]["mode"] == "truth")

        def relabel(envelope: dict[str, Any], _: list[bytes]) -> None:
            envelope["mode"] = envelope["generator"]["mode"] = "truth"

        def change(node: dict[str, Any]) -> None:
            node["map"]["blob"], node["map"]["envelope_sha256"] = forger.golden(reference["map"]["blob"], relabel)
        forger.edit("oracle-run", change, index)

    def no_truth(forger: Forger) -> None:
        for index in range(3):
            digest = child(forger.promotion, "oracle-run", index)
            if forger.store.node(digest)["map"]["mode"] == "truth":
                break
        comparison = forger.store.node(child(forger.promotion, "comparison"))
        for node in (comparison, forger.promotion):
            i = node["children"].index(digest)
            del node["map"]["edges"][i], node["children"][i]
        forger.replace(child(forger.promotion, "comparison"), forger.store.put(comparison))

    def no_comparison(forger: Forger) -> None:
        drop_edge(forger.promotion, "comparison")

    def no_license(forger: Forger) -> None:
        drop_edge(forger.promotion, "license-decision")

    def other_license(forger: Forger) -> None:
        forger.edit("license-decision", lambda node: node["map"].update(spdx="MIT", settled_by="lists"))

        def acquisition(node: dict[str, Any]) -> None:
            node["map"].update(spdx="MIT")
            forger.repoint(node)
        forger.edit("acquisition", acquisition)

    def change(role: str, **values: Any) -> Callable[[Forger], None]:
        return lambda forger: forger.edit(role, lambda node: node["map"].update(values))

    def all_but_embedding(envelope: dict[str, Any], _: list[bytes]) -> None:
        for case in envelope["cases"]:
            case["observations"] = [item for item in case["observations"] if item["name"] in ("embed", "logits")]

    def no_operators(forger: Forger) -> None:
        for index in range(3):
            forger.container("oracle-run", all_but_embedding, index)

    return {
        "a failing array under passing verdicts": (verdict, "VERDICT-DIFFERS"),
        "a level dropped": (dropped_level, "VERDICT-DIFFERS"),
        "observations under another backend": (other_backend, "GRAPH-SCHEMA"),
        "a looser policy of the same name and version": (loose_policy, "GRAPH-POLICY"),
        "truth replaced by the reference": (truth_is_reference, "GLD-SCHEMA"),
        "truth left out": (no_truth, "VERDICT-DIFFERS"),
        "evidence for fewer cases": (lambda f: f.container("oracle-run", fewer_cases), "GRAPH-SCHEMA"),
        "observations of fewer cases": (lambda f: f.container("observation", fewer_cases), "GRAPH-SCHEMA"),
        "no comparison": (no_comparison, "GRAPH-MISSING-CHILD"),
        "no license decision": (no_license, "GRAPH-MISSING-CHILD"),
        "another license": (other_license, "GRAPH-SCHEMA"),
        "another source's name": (change("acquisition", name="a/b", revision="0" * 40), "GRAPH-SCHEMA"),
        "flags left out": (change("acquisition", flags=["forged"]), "GRAPH-SCHEMA"),
        "a name that writes lines": (change("acquisition", name="x\n  L7  holds\x1b[2J"), "USAGE"),
        "another family profile": (change("family-profile", sha256=bytes(32)), "GRAPH-SCHEMA"),
        "another version of the profile": (change("family-profile", version=7), "GRAPH-SCHEMA"),
        "another pinned source": (change("family-profile", pinned_source="transformers 4.0.0"), "GRAPH-SCHEMA"),
        "another reviewer of the profile": (change("family-profile", reviewer="me"), "GRAPH-SCHEMA"),
        "evidence without operators": (no_operators, "VERDICT-DIFFERS"),
    }


def claim(result: dict[str, Any], name: str) -> str:
    return next((c["state"] for c in result["claims"] if c["claim"] == name), "absent")


def is_open(result: dict[str, Any]) -> bool:
    return any(item["what"].startswith("that the named executable made") for item in result["open_items"])


def build_nodes(call: Callable[..., tuple[int, dict[str, Any]]], store: pathlib.Path, receipt: bytes) -> None:
    """What the receipt says of its executable: only that very executable can contradict it (BKD-03, LVL-05)."""
    status, result = call(store, "verify", receipt.hex(), "--rerun")
    if status != 0 or claim(result, "rerun build") != "holds" or is_open(result):
        raise SystemExit(f"FAILED: the honest rerun: {json.dumps(result)[-1500:]}")
    values = {"compiler": "gcc 1", "flags": "-Ofast", "version": "9", "source_tree_sha256": bytes(32)}
    for key, value in [*values.items(), ("executable_sha256", bytes(32))]:
        forger = Forger(Store(store), receipt)
        forger.edit("runtime-build", lambda node, key=key, value=value: node["map"].update({key: value}))
        forged = forger.finish().hex()
        _, alone = call(store, "verify", forged)
        status, result = call(store, "verify", forged, "--rerun")
        state = claim(result, "rerun build")
        expected = (0, "not-claimed", True) if key == "executable_sha256" else (1, "fails", False)
        if not is_open(alone) or (status, state, is_open(result)) != expected:
            raise SystemExit(f"FAILED: runtime-build {key}: exit {status}, {state}")
        print(f"runtime-build {key}: {state}")
    forger = Forger(Store(store), receipt)
    forger.edit("tokenizer", lambda node: node["map"].update(reference="x"))
    forged = forger.finish().hex()
    _, result = call(store, "verify", forged)
    status, again = call(store, "verify", forged, "--rerun")
    if claim(result, "tokenizer") != "not-claimed" or status != 1 or claim(again, "rerun convert nodes") != "fails":
        raise SystemExit("FAILED: another reference of the tokenizer")


def decisions(call: Callable[..., tuple[int, dict[str, Any]]], scratch: pathlib.Path, source: pathlib.Path) -> None:
    """A license and a conflict that a person settled: no part of either can be forged or left out (ACQ-08, ACQ-12, LVL-03)."""
    model = scratch / "model"
    shutil.copytree(source, model)
    (model / "LICENSE").unlink()
    (model / "README.md").write_text("---\nlicense: other\n---\n")
    config = json.loads((model / "config.json").read_text())
    config["eos_token_id"] = 1
    (model / "config.json").write_text(json.dumps(config))
    store, statements = scratch / "decided", []
    for kind, choice, option in (("accept-conflict", "config.json#$.eos_token_id", "--accept-conflict"),
                                 ("license", "LicenseRef-NC", "--decision")):
        _, refused = call(store, "acquire", str(model), "--name", "m", "--revision", "1", *statements)
        message = refused["error"]["message"]
        found = re.search(r"Conflict ([0-9a-f]{64})" if kind == "accept-conflict" else r"holds ([0-9a-f]{64})", message)
        if not found:
            raise SystemExit(f"FAILED: no {kind} is asked for: {message}")
        path = scratch / f"{kind}.json"
        path.write_text(json.dumps({"schema": "slm.decision.v1", "kind": kind, "reviewer": "A. Reviewer", "reason": "r",
                                    "applies_to": [found[1]], "choice": choice}))
        statements += [option, str(path)]
    status, promoted = call(store, "promote", str(model), "--cases", str(ROOT / "vectors/slm-demo/cases.jsonl"), "--policy",
                            str(ROOT / "profiles/tolerance/slm-demo.exact-v1-f32.json"), *statements)
    if status != 0:
        raise SystemExit(f"FAILED: the decided promotion: {json.dumps(promoted)[:1500]}")
    receipt = bytes.fromhex(promoted["receipt"])
    status, honest = call(store, "verify", receipt.hex(), "--rerun")
    if status != 0:
        raise SystemExit(f"FAILED: the decided receipt does not hold: {json.dumps(honest)[:3000]}")

    def of_kind(forger: Forger, kind: str) -> int:
        nodes = [forger.store.node(c) for r, c in zip(forger.promotion["map"]["edges"], forger.promotion["children"]) if r == "decision"]
        return next(i for i, node in enumerate(nodes) if node["map"]["kind"] == kind)

    def decision(of: str, **values: Any) -> Callable[[Forger], None]:
        return lambda forger: forger.edit("decision", lambda node: node["map"].update(values), of_kind(forger, of))

    def statement(kind: str, text: bytes) -> Callable[[Forger], None]:
        def attack(forger: Forger) -> None:
            decision(kind, statement=forger.store.write("blob", text))(forger)
        return attack

    def no_conflict(forger: Forger) -> None:
        index = of_kind(forger, "accept-conflict")
        gone = [child(forger.promotion, "conflict"), child(forger.promotion, "decision", index)]

        def without(node: dict[str, Any]) -> None:
            for digest in gone:
                i = node["children"].index(digest)
                del node["map"]["edges"][i], node["children"][i]

        def acquisition(node: dict[str, Any]) -> None:
            without(node)
            node["map"]["choices"] = []
        forger.edit("acquisition", acquisition)
        without(forger.promotion)

    def other_license(forger: Forger) -> None:
        gone = child(forger.promotion, "decision", of_kind(forger, "license"))

        def without(node: dict[str, Any]) -> None:
            i = node["children"].index(gone)
            del node["map"]["edges"][i], node["children"][i]

        def license_node(node: dict[str, Any]) -> None:
            node["map"].update(spdx="MIT", redistribution="allowed", settled_by="lists")
            without(node)
        forger.edit("license-decision", license_node)

        def acquisition(node: dict[str, Any]) -> None:
            node["map"].update(spdx="MIT", redistribution="allowed")
            without(node)
            forger.repoint(node)
        forger.edit("acquisition", acquisition)
        without(forger.promotion)

    forgeries: dict[str, Callable[[Forger], None]] = {
        "a conflict and its decision left out": no_conflict,
        "a license without its decision": other_license,
        "another reviewer": decision("accept-conflict", reviewer="B. Reviewer"),
        "another choice": decision("accept-conflict", choice="generation_config.json#$.eos_token_id"),
        "another kind": decision("accept-conflict", kind="license"),
        "another license chosen": decision("license", choice="MIT"),
        "a statement that is none": statement("accept-conflict", b"hello"),
        "an empty statement": statement("license", b"{}"),
    }
    for name, attack in forgeries.items():
        forger = Forger(Store(store), receipt)
        attack(forger)
        forged = forger.finish()
        status, result = call(store, "verify", forged.hex())
        failed = [c["claim"] for c in result["claims"] if c["state"] == "fails"]
        print(f"{name}: exit {status}, {failed}")
        if forged == receipt or status != 1 or not {"license", "conflicts", "source"} & set(failed):
            raise SystemExit(f"FAILED: {name} was not caught")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slm", required=True)
    parser.add_argument("--source", required=True)
    args = parser.parse_args()
    vectors = ROOT / "vectors" / "slm-demo"

    def call(store: pathlib.Path, *arguments: str) -> tuple[int, dict[str, Any]]:
        done = subprocess.run([args.slm, "--store", str(store), "--json", *arguments], capture_output=True, text=True, check=False)
        if not done.stdout:
            raise SystemExit(done.stderr[-3000:])
        return done.returncode, json.loads(done.stdout)

    with tempfile.TemporaryDirectory() as scratch:
        honest = pathlib.Path(scratch) / "honest"
        evidence = [part for mode in ("reference", "source", "truth") for part in ("--evidence", str(vectors / f"{mode}.golden"))]
        status, promoted = call(honest, "promote", args.source, "--cases", str(vectors / "cases.jsonl"), *evidence, "--policy",
                                str(ROOT / "profiles" / "tolerance" / "slm-demo.exact-v1-f32.json"))
        if status != 0:
            raise SystemExit(f"the honest promotion fails: {json.dumps(promoted)[:2000]}")
        receipt = bytes.fromhex(promoted["receipt"])
        forged_store = pathlib.Path(scratch) / "forged"
        shutil.copytree(honest, forged_store)
        unchanged = Forger(Store(forged_store), receipt).finish()
        if unchanged != receipt:
            raise SystemExit("FAILED: a forger who changes nothing gets another receipt; the test would show nothing")
        for name, (attack, code) in attacks().items():
            forger = Forger(Store(forged_store), receipt)
            attack(forger)
            forged = forger.finish()
            status, result = call(forged_store, "verify", forged.hex())
            if "error" in result:
                raise SystemExit(f"FAILED: {name} ends verify instead of failing a claim: {result['error']}")
            codes = {problem["code"] for problem in result["problems"]} | {c.get("code") for c in result["claims"]}
            print(f"{name}: exit {status}, {sorted(filter(None, codes))}")
            if forged == receipt or status != 1 or result["holds"] or code not in codes:
                raise SystemExit(f"FAILED: {name} was not caught as {code}")
        # Numbers that pass every limit and were never computed: only running again shows it.
        forger = Forger(Store(forged_store), receipt)
        forger.container("observation", flip_low_bit)
        forged = forger.finish()
        status, result = call(forged_store, "verify", forged.hex(), "--rerun")
        if status != 1 or "RERUN-DIFFERS" not in {problem["code"] for problem in result["problems"]}:
            raise SystemExit(f"FAILED: observations that were never made: {json.dumps(result)[-1500:]}")
        print("observations that were never made: RERUN-DIFFERS")
        build_nodes(call, forged_store, receipt)
        decisions(call, pathlib.Path(scratch), pathlib.Path(args.source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
