"""Forged receipts, every hash above the forgery made again: `slm verify` catches each (ID-07, LVL-01, TOL-03, ORA-02, TOOL-03).

    forge_test.py --slm SLM --source DIR

Promotes the shipped model, then writes forged objects straight into a copy of the store with the independent CBOR
reader, which shares nothing with the program, and verifies the forged receipt.
"""
import argparse
import hashlib
import json
import pathlib
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
    }


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
    return 0


if __name__ == "__main__":
    sys.exit(main())
