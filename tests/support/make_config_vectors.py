#!/usr/bin/env python3
"""Writes vectors/config/refused.json: which values of which keys the pinned source refuses to load.

Each key that the family profile lists is given a score of values, one at a time, in a config.json (or a
generation_config.json) that is sound otherwise. A value that the source refuses has no model to be equal to, so the
converter has to refuse it too. Needs transformers.

    make_config_vectors.py              writes vectors/config/refused.json
    make_config_vectors.py --check      makes it again and compares, writes nothing; exit 1 where it differs
"""
import json
import logging
import pathlib
import sys
import tempfile
import warnings
from typing import Any

from transformers import GenerationConfig, LlamaConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "vectors" / "config" / "refused.json"
PROFILE = ROOT / "profiles" / "families" / "llama.json"
BASE = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 300, "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 256}
VALUES = ["null", "true", "false", "0", "1", "2", "-1", "0.0", "0.5", "1.0", "2.0", "-0.5", "1e300", '"x"', '""', "[]", "[1]",
          '["x"]', '["full_attention"]', '["full_attention", "full_attention"]', '["full_attention", "sliding_attention"]',
          "{}", '{"a": 1}', '{"0": "x"}']


def loads(kind: str, members: dict[str, Any], folder: str) -> bool:
    name = "config.json" if kind == "config" else "generation_config.json"
    (pathlib.Path(folder) / name).write_text(json.dumps(members), encoding="utf-8")
    try:
        (LlamaConfig if kind == "config" else GenerationConfig).from_pretrained(folder)
    except Exception:  # pylint: disable=broad-exception-caught  # whatever it raises, there is no model
        return False
    return True


def refused() -> dict[str, dict[str, list[str]]]:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    profile = json.loads(PROFILE.read_text(encoding="utf-8"))
    out: dict[str, dict[str, list[str]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, base in (("config", BASE), ("generation_config", {"eos_token_id": 2})):
            if not loads(kind, base, folder):
                raise SystemExit(f"the sound {kind} does not load")
            rows = {entry["key"]: [text for text in VALUES if not loads(kind, {**base, entry["key"]: json.loads(text)}, folder)]
                    for entry in profile[kind]}
            out[kind] = {key: texts for key, texts in sorted(rows.items()) if texts}
    return out


def main() -> int:
    out = refused()
    rows = {kind: ",\n".join(f"  {json.dumps(key)}: {json.dumps(texts)}" for key, texts in keys.items())
            for kind, keys in out.items()}
    text = ('{"schema": "slm.config-vectors.v1", "source": "transformers 5.24.0",\n'
            f' "base": {json.dumps(BASE)},\n "generation_base": {{"eos_token_id": 2}},\n'
            f' "config": {{\n{rows["config"]}}},\n "generation_config": {{\n{rows["generation_config"]}}}}}\n')
    count = sum(len(texts) for keys in out.values() for texts in keys.values())
    if sys.argv[1:] == ["--check"]:
        same = FILE.read_text(encoding="utf-8") == text
        print(f"{count} refused values, {'none differs' if same else 'DIFFERENT'}")
        return 0 if same else 1
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text, encoding="utf-8")
    print(f"{count} refused values")
    return 0


if __name__ == "__main__":
    sys.exit(main())
