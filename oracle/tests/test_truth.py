"""The truth forward against the framework, stage by stage, over every variation of the family (ORA-02, ORA-03)."""

from __future__ import annotations

import json
import os
import struct
import tempfile
import unittest
import unittest.mock
from fractions import Fraction
from typing import Any

import numpy as np

from slm_oracle import OracleError, rope
from slm_oracle.config import effective_config
from slm_oracle.observe import stored
from slm_oracle.reference import Reference, configure_framework
from slm_oracle.source import Source
from slm_oracle.truth import Parameters, Truth

from . import tiny

VECTORS = os.path.join(os.path.dirname(__file__), "..", "..", "vectors", "rope", "inverse_frequencies.json")
IDS = [1, 5, 40, 7, 7, 0, 13, 29, 3, 22, 17]
ROLES = {"embed", "attn_norm", "attn.q", "attn.k", "attn.v", "attn.q_rope", "attn.k_rope", "attn.mask", "attn.scores",
         "attn.probs", "attn.av", "attn.out", "attn_residual", "mlp_norm", "mlp.gate", "mlp.up", "mlp.act", "mlp.down",
         "output", "final_norm"}


def observe_reference(source: Source, mode: str = "reference") -> tuple[Reference, dict[Any, np.ndarray], np.ndarray]:
    reference = Reference(source, mode)
    seen: dict[Any, np.ndarray] = {}
    logits = reference.observe(IDS, lambda role, layer, value: seen.__setitem__((role, layer), stored(value)[0].copy()))
    return reference, seen, logits.float().numpy()


def observe_truth(source: Source) -> tuple[Truth, dict[Any, np.ndarray], np.ndarray]:
    truth = Truth(source)
    seen: dict[Any, np.ndarray] = {}
    logits = truth.forward(IDS, truth.new_cache(), lambda role, layer, value: seen.__setitem__((role, layer), value))
    return truth, seen, logits


class TruthTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        configure_framework(1)
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def source(self, name: str, changes: dict[str, Any], **more: Any) -> Source:
        return Source(tiny.write(os.path.join(self.folder.name, name), changes, **more))

    def test_ora02_truth_and_framework_agree_at_every_stage(self) -> None:
        for name, changes in tiny.VARIATIONS.items():
            with self.subTest(name):
                source = self.source(name, changes)
                reference, seen, logits = observe_reference(source)
                truth, exact, exact_logits = observe_truth(source)
                self.assertEqual(seen.keys(), exact.keys())
                self.assertEqual({role for role, _ in seen}, ROLES)
                visible = exact[("attn.mask", 0)]
                for key, value in exact.items():
                    self.assertEqual(seen[key].shape, value.shape, key)
                    if key[0] == "attn.mask":
                        np.testing.assert_array_equal(seen[key], value)
                        continue
                    if key[0] in ("attn.scores", "attn.probs"):
                        value, other = value[:, visible], seen[key][:, visible]
                    else:
                        other = seen[key]
                    self.assertLess(np.abs(other - value).max(), 2e-5 * max(1.0, np.abs(value).max()), key)
                self.assertLess(np.abs(logits - exact_logits).max(), 2e-5 * np.abs(exact_logits).max())
                self.assertEqual(logits.argmax(-1).tolist(), exact_logits.argmax(-1).tolist())
                pinned = reference.model.model.rotary_emb
                ulps = pinned.inv_freq.numpy().view(np.int32) - truth.inv_freq.view(np.int32)
                self.assertLessEqual(int(np.abs(ulps).max()), 1)
                self.assertEqual(float(pinned.attention_scaling), truth.attention_factor)

    def test_ora03_the_stages_are_what_their_names_say(self) -> None:
        source = self.source("chain", tiny.VARIATIONS["biases"])
        _, seen, _ = observe_reference(source)
        x = seen[("embed", None)]
        for layer in range(3):
            residual = x + seen[("attn.out", layer)]
            np.testing.assert_array_equal(residual, seen[("attn_residual", layer)])
            x = residual + seen[("mlp.down", layer)]
            np.testing.assert_array_equal(x, seen[("output", layer)])
            probs = seen[("attn.probs", layer)]
            np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-6)
            np.testing.assert_array_equal(seen[("attn.q", layer)][0], seen[("attn.q_rope", layer)][0])  # position 0
            self.assertFalse(np.array_equal(seen[("attn.q", layer)][1], seen[("attn.q_rope", layer)][1]))

    def test_ora02_a_cache_gives_the_same_as_one_call(self) -> None:
        truth = Truth(self.source("cache", {}))
        whole = truth.forward(IDS, truth.new_cache(), lambda *_: None)
        cache = truth.new_cache()
        parts = [truth.forward(part, cache, lambda *_: None) for part in (IDS[:4], IDS[4:5], IDS[5:])]
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-13, atol=1e-13)

    def test_ora02_the_truth_notices_what_it_must(self) -> None:
        base = observe_truth(self.source("base", {}))[2]
        for name, changes in {"epsilon": {"rms_norm_eps": 1e-4}, "theta": {"rope_theta": 10001.0},
                              "activation": {"hidden_act": "gelu"}}.items():
            with self.subTest(name):
                other = observe_truth(self.source(name, changes))[2]
                self.assertGreater(np.abs(other - base).max(), 1e-6)

    def test_ora02_source_mode_runs_in_the_publishers_dtype(self) -> None:
        import torch

        source = self.source("bf16", {"torch_dtype": "bfloat16"})
        reference, seen, _ = observe_reference(source, "source")
        self.assertEqual(reference.model.dtype, torch.bfloat16)
        self.assertEqual(seen[("attn.q", 0)].dtype, np.uint16)
        wide = observe_reference(source)[0]
        self.assertEqual((wide.dtype, wide.published_dtype), ("f32", "bf16"))
        # L3: the framework's loading and our own reading of the file are the same bits.
        ours = {name: tensor.sha256() for name, tensor in source.tensors().items()}
        self.assertEqual({entry["name"]: entry["sha256"] for entry in reference.tensor_hashes()}, ours)
        exact = observe_truth(source)[1][("attn.q", 0)]
        widened = (seen[("attn.q", 0)].astype(np.uint32) << 16).view(np.float32)
        self.assertLess(np.abs(widened - exact).max(), 0.05)

    def test_a_missing_tensor_is_named(self) -> None:
        source = self.source("missing", {})
        truth = Truth(source)
        del truth._tensors["model.layers.1.mlp.up_proj.weight"]
        with self.assertRaisesRegex(OracleError, "model.layers.1.mlp.up_proj.weight"):
            truth.forward(IDS, truth.new_cache(), lambda *_: None)


class ConfigTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        configure_framework(1)
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def fields(self, name: str, changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
        source = Source(tiny.write(os.path.join(self.folder.name, name), changes))
        return {field["name"]: field for field in effective_config(source, Reference(source, "reference"))}

    def test_cfg03_each_default_names_the_line_that_supplies_it(self) -> None:
        import transformers

        packages = os.path.dirname(os.path.dirname(transformers.__file__))
        keys = {"hidden_act": "activation", "rms_norm_eps": "norm_eps", "max_position_embeddings": "max_positions",
                "tie_word_embeddings": "tie_word_embeddings", "attention_bias": "q_bias", "bos_token_id": "bos_token_id",
                "eos_token_id": "eos_token_ids", "rope_theta": "rope_theta"}
        source = tiny.write(os.path.join(self.folder.name, "defaults"))
        path = os.path.join(source, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        for key in keys:
            config.pop(key)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        opened = Source(source)
        fields = {field["name"]: field for field in effective_config(opened, Reference(opened, "reference"))}
        for key, name in keys.items():
            with self.subTest(key):
                self.assertEqual(fields[name]["origin"], "default")
                with open(os.path.join(packages, fields[name]["file"]), encoding="utf-8") as file:
                    line = file.read().splitlines()[fields[name]["line"] - 1]
                self.assertIn("default_theta" if key == "rope_theta" else key, line)
        self.assertEqual(fields["norm_eps"]["value"], struct.pack("<d", 1e-6))
        self.assertEqual(fields["max_positions"]["value"], 2048)
        self.assertEqual(fields["eos_token_ids"]["value"], [])  # GenerationConfig's default, not the model's 2

    def test_cfg03_parameters_of_each_rotary_type(self) -> None:
        yarn = self.fields("yarn", tiny.VARIATIONS["yarn"])
        self.assertEqual(yarn["rope_beta_fast"], {
            **yarn["rope_beta_fast"], "value": struct.pack("<d", 32), "origin": "default"})
        self.assertEqual(yarn["rope_truncate"]["value"], True)
        self.assertEqual(yarn["rope_original_max_position_embeddings"]["origin"], "config.json")
        full = self.fields("yarn_all", tiny.VARIATIONS["yarn_all"])
        self.assertEqual(full["rope_mscale"]["value"], struct.pack("<d", 0.7))
        self.assertEqual(full["rope_truncate"], {"name": "rope_truncate", "value": False, "origin": "config.json"})
        llama3 = self.fields("llama3", tiny.VARIATIONS["llama3"])
        self.assertEqual(llama3["rope_type"]["value"], "llama3")
        self.assertEqual(llama3["rope_high_freq_factor"]["value"], struct.pack("<d", 4.0))
        plain = self.fields("plain", {})
        self.assertNotIn("rope_factor", plain)
        self.assertEqual(plain["rope_dim"]["value"], 6)


class RopeTest(unittest.TestCase):
    def test_powers_are_correctly_rounded(self) -> None:
        """base ** (p / 2^k) against exact rational comparison of neighbours' powers."""
        random = np.random.default_rng(3)
        for _ in range(200):
            base = np.float32(random.choice([10000.0, 1e6, 500000.0, 1e5, 12345.0]))
            exponent = np.float32(random.integers(1, 64) / 64)
            result = rope.power_f32(base, exponent)
            ratio = Fraction(float(exponent))
            exact = Fraction(float(base)) ** ratio.numerator
            low, high = (np.nextafter(result, np.float32(toward)) for toward in (-np.inf, np.inf))
            # The midpoints to both neighbours enclose the true root.
            below = (Fraction(float(low)) + Fraction(float(result))) / 2
            above = (Fraction(float(high)) + Fraction(float(result))) / 2
            self.assertLessEqual(below**ratio.denominator, exact)
            self.assertGreaterEqual(above**ratio.denominator, exact)

    def test_frequencies_are_those_of_the_family_page(self) -> None:
        """vectors/rope holds what the pinned source gave on one machine, and for some the exact values."""
        n_exact, apart = 0, []
        with open(VECTORS, encoding="utf-8") as file:
            vectors = json.load(file)["cases"]
        self.assertGreater(len(vectors), 20)
        for vector in vectors:
            with self.subTest(vector["config"]):
                config = {**tiny.BASE, "max_position_embeddings": 2048, **vector["config"]}
                parameters = Parameters.of(config)
                ours, factor = rope.inverse_frequencies(parameters.rope, parameters.head_dim, parameters.max_positions)
                n_exact += "exact" in vector
                self.assertEqual(ours.astype("<f4").tobytes().hex(), vector.get("exact", ours.astype("<f4").tobytes().hex()))
                self.assertEqual(struct.pack("<d", factor).hex(), vector["attention_scaling"])
                pinned = np.frombuffer(bytes.fromhex(vector["inv_freq"]), "<i4")
                distance = np.abs(pinned - ours.view(np.int32))
                apart += [(vector["config"]["rope_parameters"], int(i)) for i in np.flatnonzero(distance > 1)]
                self.assertLessEqual(int(distance.max()), 2)
        self.assertGreater(n_exact, 10)
        # docs/decisions/0007-llama3-band.md: the one value that L3 would refuse.
        self.assertEqual(apart, [({"rope_type": "llama3", "factor": 2.0, "rope_theta": 7e4, "low_freq_factor": 1,
                                     "high_freq_factor": 4}, 13)])

    def test_cfg03_from_the_sources_own_powers_the_steps_give_the_sources_bits(self) -> None:
        """So a unit of difference in a frequency is the power's, and nothing else differs from the source."""
        import torch
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        def powers(theta: float, dim: int) -> np.ndarray:
            return (theta ** (torch.arange(0, dim, 2, dtype=torch.int64).to(dtype=torch.float) / dim)).numpy()

        with open(VECTORS, encoding="utf-8") as file:
            vectors = json.load(file)["cases"]
        kinds = set()
        with unittest.mock.patch.object(rope, "_powers", powers):
            for vector in vectors:
                with self.subTest(vector["config"]):
                    parameters = Parameters.of({**tiny.BASE, "max_position_embeddings": 2048, **vector["config"]})
                    kinds.add(parameters.rope["rope_type"])
                    ours, _ = rope.inverse_frequencies(parameters.rope, parameters.head_dim, parameters.max_positions)
                    members = json.loads(json.dumps(vector["config"]))
                    pinned = LlamaRotaryEmbedding(LlamaConfig(hidden_size=64, num_attention_heads=1, **members)).inv_freq
                    np.testing.assert_array_equal(ours.view(np.int32), pinned.numpy().view(np.int32))
        self.assertEqual(kinds, {"default", "linear", "dynamic", "yarn", "llama3"})


if __name__ == "__main__":
    unittest.main()
