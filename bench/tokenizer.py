#!/usr/bin/env python3
"""The tokenizer against its fastest peers, in turns in one run: `./dev bench tokenizer` (bench/README.md).

    tokenizer.py [--rounds N] [--worst] [--next PYTHON] [TOKENIZER ...]

Every peer is a process of its own with a fresh tokenizer: its first pass over the documents is cold, the best of the
next two is warm. Times are user and system time of one thread, so that other work on the machine weighs less; of the
rounds the median is given, with the smallest and the largest. First of all the ids of every document are compared with
those of tokenizers 0.23.3; a peer with other ids is named and not ranked, and where ours differ the run ends.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import statistics
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ROOT / "build" / "release" / "bench" / "tokenizer_bench"
SHARED = ROOT.parent / "shared" / "vectors" / "tokenizers" / "models"
FETCHED = ROOT / "build" / "tokenizers"
FOLDER = ROOT / "build" / "bench-tokenizer"
FILES = {
    "gpt2": SHARED / "gpt2.tokenizer.json",
    "llama3_1": FETCHED / "llama3_1.tokenizer.json",
    "qwen3": FETCHED / "qwen3.tokenizer.json",
    "bert": SHARED / "bert_base_cased.tokenizer.json",
    "llama2": SHARED / "llama2.tokenizer.json",
    "gemma3": FETCHED / "gemma3.tokenizer.json",
    "smollm2": ROOT / "build" / "models" / "smollm2-135m-instruct" / "tokenizer.json",
    "xlnet": SHARED / "xlnet_base_cased.tokenizer.json",
}
PEERS = ["gigatoken", "fastokens", "next", "splintr", "tiktoken", "reference"]
LABELS = {"slm": "slm", "slm+offsets": "slm, byte offsets", "gigatoken": "gigatoken 0.10.0", "fastokens": "fastokens 0.3.5",
          "next": "tokenizers 1.0.0rc3", "splintr": "splintr-rs 0.22.0", "tiktoken": "tiktoken 0.14.0",
          "reference": "tokenizers 0.23.3"}
SLOW = {"reference": 8}  # looks at each eighth document only
DOCUMENT = 4096
MIB = 1 << 20
LONG_WORDS = ["letter", "random letters", "spaces", "combining marks"]
MARKS = {"byte-level": 20, "other": 10}


# ---- documents ------------------------------------------------------------------------------------------


def pack(documents: list[bytes], path: pathlib.Path) -> None:
    path.write_bytes(b"".join(struct.pack("<I", len(d)) + d for d in documents))


def unpack(path: pathlib.Path) -> list[bytes]:
    data, out, at = path.read_bytes(), [], 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        out.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return out


def documents_of(text: str) -> list[bytes]:
    """Lines put together to documents of at most DOCUMENT bytes; a longer line is cut."""
    out, current = [], b""
    for line in text.splitlines(keepends=True):
        rest = line.encode()
        if len(current) + len(rest) > DOCUMENT and current:
            out.append(current)
            current = b""
        while len(rest) > DOCUMENT:
            end = DOCUMENT
            while rest[end] & 0xC0 == 0x80:
                end -= 1
            out.append(rest[:end])
            rest = rest[end:]
        current += rest
    return [*out, current] if current else out


def corpus() -> dict[str, list[bytes]]:
    """Program text, English and 90 other languages from the sources of Django, which the lock file pins."""
    import django

    root = pathlib.Path(django.__file__).parent
    generator = random.Random(20261130)
    texts = []
    for pattern, limit in (("**/*.py", 3_500_000), ("**/*.js", 700_000), ("**/*.html", 500_000), ("**/LC_MESSAGES/*.po", 5_500_000)):
        files = [f for f in sorted(root.glob(pattern)) if "locale/en" not in f.as_posix()]
        generator.shuffle(files)
        for file in files:
            text = file.read_text(encoding="utf-8")
            if file.suffix == ".po":  # what is translated, once as it stands and once alone
                text = "\n".join(m.replace("\\n", "\n").replace('"\n"', "") for m in re.findall(r'msgstr(?:\[\d\])? ((?:".*"\n?)+)', text))
            texts.append(text)
            limit -= len(text.encode())
            if limit < 0:
                break
    all_documents = [d for text in texts for d in documents_of(text)]
    generator.shuffle(all_documents)
    share = [(d, sum(b > 127 for b in d) / len(d)) for d in all_documents]
    return {"all": all_documents, "ASCII": [d for d, s in share if s == 0], "non-ASCII": [d for d, s in share if s >= 0.3]}


def long_words() -> dict[str, bytes]:
    generator = random.Random(1)
    return {"letter": b"a" * MIB, "random letters": bytes(generator.choices(b"abcdefghijklmnopqrstuvwxyz", k=MIB)),
            "spaces": b" " * MIB, "combining marks": "".join(chr(0x300 + generator.randrange(0x70)) for _ in range(MIB // 2)).encode()}


# ---- one peer, in a process of its own ------------------------------------------------------------------


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peer_encoder(peer: str, file: str):
    """A function from bytes to ids in the peer's own form, and one from that form to a list."""
    if peer == "gigatoken":
        import gigatoken

        tokenizer = gigatoken.Tokenizer(file)
        return tokenizer.encode, list
    if peer == "fastokens":
        import fastokens

        tokenizer = fastokens.Tokenizer.from_file(file)
        return lambda d: tokenizer.encode_batch_flat([d.decode()], add_special_tokens=False), \
            lambda d: tokenizer.encode(d.decode(), add_special_tokens=False).ids
    if peer == "splintr":
        import splintr

        tokenizer = splintr.from_json(file)
        return lambda d: tokenizer.encode_flat(d.decode()), None
    if peer == "tiktoken":
        return tiktoken_encoder(file), list
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(file)
    if peer == "reference":
        tokenizer.no_truncation()
        tokenizer.no_padding()
    if peer == "next":
        return lambda d: tokenizer.encode(d.decode(), add_special_tokens=False).ids_array, list
    return lambda d: tokenizer.encode_batch_fast([d.decode()], add_special_tokens=False)[0].ids, list


def tiktoken_encoder(file: str):
    import tiktoken

    data = json.loads(pathlib.Path(file).read_text())
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in visible} | {chr(256 + n): b for n, b in enumerate(b for b in range(256) if b not in visible)}
    parts = data["pre_tokenizer"].get("pretokenizers") or [data["pre_tokenizer"]]
    patterns = [p["pattern"]["Regex"] for p in parts if p["type"] == "Split"]
    pattern = patterns[0] if patterns else r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    if any(p["type"] == "Digits" for p in parts) or any(p["type"] not in ("Split", "ByteLevel") for p in parts):
        raise ValueError("no form for tiktoken")
    ranks = {bytes(byte_of[c] for c in token): i for token, i in data["model"]["vocab"].items() if all(c in byte_of for c in token)}
    special = {t["content"]: t["id"] for t in data["added_tokens"]}
    ranks = {token: i for token, i in ranks.items() if i not in special.values()}
    encoding = tiktoken.Encoding("file", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    return lambda d: encoding.encode(d.decode(), allowed_special="all")


def digest(ids) -> str:
    values = list(ids)
    return hashlib.sha256(struct.pack(f"<{len(values)}I", *values)).hexdigest()[:16]


def worker(peer: str, file: str, documents: str, what: str) -> None:
    before = cpu_seconds()
    encode, to_list = peer_encoder(peer, file)
    load = cpu_seconds() - before
    texts = unpack(pathlib.Path(documents))
    if what == "ids":
        if to_list is None:  # its flat form holds what its template adds; the other call does not
            import splintr

            tokenizer = splintr.from_json(file)
            print(json.dumps([digest(tokenizer.encode_raw(d.decode())) for d in texts]))
            return
        plain = to_list if peer == "fastokens" else lambda d: to_list(encode(d))
        print(json.dumps([digest(plain(d)) for d in texts]))
        return
    texts = texts[:: SLOW.get(peer, 1)]
    passes = []
    for _ in range(3):
        start = cpu_seconds()
        for text in texts:
            encode(text)
        passes.append(cpu_seconds() - start)
    print(json.dumps({"load": load, "passes": passes, "bytes": sum(map(len, texts))}))


# ---- the run --------------------------------------------------------------------------------------------


class Run:
    def __init__(self, following: str | None):
        self.following = following  # the interpreter of the environment of tokenizers 1.0.0rc3
        self.environment = dict(os.environ, RAYON_NUM_THREADS="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

    def peer(self, peer: str, name: str, documents: pathlib.Path, what: str):
        """The answer of one process, or None where the peer does not load the file or fails on a text."""
        python = self.following if peer == "next" else sys.executable
        if python is None:
            return None
        command = [python, __file__, "--worker", peer, str(FILES[name]), str(documents), what]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=900)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def ours(self, name: str, documents: pathlib.Path, mode: str, passes: int = 3):
        done = subprocess.run([str(OURS), str(FILES[name]), str(documents), mode, str(passes)], capture_output=True, check=True)
        out = json.loads(done.stdout)
        out["bytes"] = sum(map(len, unpack(documents)))
        if mode == "dump":
            out["digests"] = [hashlib.sha256(ids).hexdigest()[:16] for ids in unpack_bytes(done.stderr)]
        return out

    def exact(self, name: str, documents: pathlib.Path) -> list[str]:
        """The peers whose ids are those of the reference, after saying who differs."""
        wanted = self.peer("reference", name, documents, "ids")
        mine = self.ours(name, documents, "dump", 1)["digests"]
        n_different = sum(a != b for a, b in zip(wanted, mine, strict=True))
        if n_different:
            raise SystemExit(f"{name}: our ids differ from the reference's on {n_different} of {len(wanted)} documents")
        out, notes = [], []
        for peer in PEERS:
            ids = wanted if peer == "reference" else self.peer(peer, name, documents, "ids")
            if ids is None:
                notes.append(f"{LABELS[peer]} does not run it")
            elif ids != wanted:
                notes.append(f"{LABELS[peer]} differs on {sum(a != b for a, b in zip(wanted, ids))}")
            else:
                out.append(peer)
        print(f"{name}: ids of {len(wanted)} documents equal to the reference's: slm" + "".join(f", {LABELS[p]}" for p in out)
              + "".join(f"; {note}" for note in notes), flush=True)
        return out


def unpack_bytes(data: bytes) -> list[bytes]:
    out, at = [], 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        out.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return out


def show(values: list[float]) -> str:
    return f"{statistics.median(values):6.1f} ({min(values):.1f} to {max(values):.1f})"


def measure(run: Run, name: str, paths: dict[str, pathlib.Path], peers: list[str], rounds: int) -> bool:
    holds = True
    for kind, path in paths.items():
        speeds: dict[str, tuple[list[float], list[float]]] = {}
        loads: dict[str, list[float]] = {}
        for _ in range(rounds):
            for peer in ["slm", "slm+offsets", *peers]:
                if kind != "all" and peer in SLOW:
                    continue
                if peer.startswith("slm"):
                    out = run.ours(name, path, "offsets" if peer == "slm+offsets" else "ids")
                else:
                    out = run.peer(peer, name, path, "time")
                cold, warm = speeds.setdefault(peer, ([], []))
                cold.append(out["bytes"] / out["passes"][0] / 1e6)
                warm.append(out["bytes"] / min(out["passes"][1:]) / 1e6)
                loads.setdefault(peer, []).append(out["load"] * 1e3)
        print(f"  {name}, {kind}: MB/s cold, MB/s warm, ms to load")
        for peer, (cold, warm) in sorted(speeds.items(), key=lambda item: -statistics.median(item[1][0])):
            print(f"    {LABELS[peer]:22} {show(cold):28} {show(warm):28} {min(loads[peer]):7.1f}", flush=True)
        if kind == "all":
            median = {peer: statistics.median(cold) for peer, (cold, _) in speeds.items()}
            best = max((median[peer] for peer in peers), default=0.0)
            holds &= median["slm"] > best and median["slm+offsets"] >= 0.6 * median["slm"]
            print(f"    -> cold {median['slm'] / best:.2f} times the fastest exact peer; offsets at {median['slm+offsets'] / median['slm']:.0%}")
    return holds


def measure_long_words(run: Run, name: str) -> bool:
    """One word of 1 MiB: our ids against the reference's, speed, and memory beyond tables and result."""
    holds = True
    byte_level = "ByteLevel" in FILES[name].read_text(encoding="utf-8")
    mark = MARKS["byte-level" if byte_level else "other"]
    for kind, text in long_words().items():
        path = FOLDER / "long-word.bin"
        pack([text], path)
        speed = max(MIB / run.ours(name, path, "ids", 1)["passes"][0] / 1e6 for _ in range(3))
        same = run.peer("reference", name, path, "ids") == run.ours(name, path, "dump", 1)["digests"]
        holds &= same and speed >= mark
        print(f"  {name}, 1 MiB of {kind}: {speed:.1f} MB/s (mark {mark}), ids {'equal' if same else 'DIFFER'}", flush=True)
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worst", action="store_true", help="the long words alone")
    parser.add_argument("--next", metavar="PYTHON", help="interpreter of an environment with tokenizers 1.0.0rc3")
    parser.add_argument("tokenizers", nargs="*", metavar="TOKENIZER", choices=[[], *FILES], default=[])
    args = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    paths = {}
    for kind, documents in corpus().items():
        paths[kind] = FOLDER / f"{kind}.bin"
        pack(documents, paths[kind])
        print(f"documents, {kind}: {len(documents)}, {sum(map(len, documents))} bytes, sha256 "
              f"{hashlib.sha256(paths[kind].read_bytes()).hexdigest()[:16]}")
    run = Run(args.next)
    failed = []
    for name in args.tokenizers or FILES:
        if not FILES[name].exists():
            print(f"not-run: {name}: {FILES[name].name} is not here")
            continue
        holds = True
        if not args.worst:
            holds = measure(run, name, paths, run.exact(name, paths["all"]), args.rounds)
        if not measure_long_words(run, name) or not holds:
            failed.append(name)
    print("holds on every file" if not failed else "does not hold: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:6])
        sys.exit(0)
    sys.exit(main())
