"""The configuration that the pinned source really built, field by field, and who supplies each value (CFG-03)."""

from __future__ import annotations

import ast
import inspect
import os
import struct
from typing import Any, Callable

from transformers import GenerationConfig
from transformers import modeling_rope_utils, modeling_utils
from transformers.models.llama import modeling_llama

from . import OracleError
from .reference import Reference
from .source import Source


def f64(value: float) -> bytes:
    return struct.pack("<d", float(value))


class Origins:
    """Finds in the pinned packages the line that gives an attribute its value."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module] = {}

    def _tree(self, path: str) -> ast.Module:
        if path not in self._trees:
            with open(path, encoding="utf-8") as file:
                self._trees[path] = ast.parse(file.read())
        return self._trees[path]

    @staticmethod
    def _relative(path: str) -> str:
        packages = os.path.dirname(os.path.dirname(os.path.abspath(inspect.getfile(__import__("transformers")))))
        return os.path.relpath(path, packages)

    def attribute(self, cls: type, name: str) -> tuple[str, int] | None:
        """The declaration of a class attribute or dataclass field, along the method resolution order."""
        for base in cls.__mro__:
            node = self._class(base)
            for statement in node.body if node else []:
                targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
                if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                    if statement.value is not None:
                        return self._relative(inspect.getfile(base)), statement.lineno
        return None

    def assignment(self, cls: type, name: str) -> tuple[str, int] | None:
        """The last `self.NAME = ...` (or tuple of such) in the methods of cls and its bases."""
        for base in cls.__mro__:
            node, found = self._class(base), None
            for statement in ast.walk(node) if node else []:
                targets = statement.targets if isinstance(statement, ast.Assign) else []
                flat = [item for target in targets for item in (target.elts if isinstance(target, ast.Tuple) else [target])]
                if any(isinstance(item, ast.Attribute) and item.attr == name for item in flat):
                    found = statement.lineno
            if found:
                return self._relative(inspect.getfile(base)), found
        return None

    def call(self, function: Callable, needle: Callable[[ast.AST], bool]) -> tuple[str, int] | None:
        """The first node inside function that needle accepts."""
        function = inspect.unwrap(function)
        path = inspect.getfile(function)
        for node in ast.walk(self._tree(path)):
            if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
                for inner in ast.walk(node):
                    if needle(inner):
                        return self._relative(path), inner.lineno
        return None

    def _class(self, cls: type) -> ast.ClassDef | None:
        try:
            path = inspect.getfile(cls)
        except TypeError:  # built in
            return None
        if not path.endswith(".py"):
            return None
        for node in ast.walk(self._tree(path)):
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                return node
        return None


def _mentions(key: str, method: str) -> Callable[[ast.AST], bool]:
    """Accepts a call of `.method("key", ...)`."""
    def accept(node: ast.AST) -> bool:
        return (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
                and bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == key)
    return accept


class _Export:
    def __init__(self, source: Source, reference: Reference) -> None:
        self.source, self.reference = source, reference
        self.origins = Origins()
        self.config_class = type(reference.config)
        self.fields: list[dict[str, Any]] = []
        published = dict(source.config)
        rope = published.get("rope_scaling") or published.get("rope_parameters") or {}
        self.rope_published = {key: value for key, value in rope.items() if value is not None}
        self.published = published

    def add(self, name: str, value: Any, origin: str, place: tuple[str, int] | None = None) -> None:
        record: dict[str, Any] = {"name": name, "value": value, "origin": origin}
        if origin in ("default", "derived"):
            if place is None:
                raise OracleError(f"no line of the pinned source was found for {name}")
            record["file"], record["line"] = place
        self.fields.append(record)

    def config_field(self, name: str, key: str, value: Any, derived: str | None = None) -> None:
        """A key of config.json: there, or the class's default, or computed in __post_init__ when absent."""
        if self.published.get(key) is not None:
            self.add(name, value, "config.json")
        elif derived is not None:
            self.add(name, value, "derived", self.origins.assignment(self.config_class, derived))
        else:
            self.add(name, value, "default", self.origins.attribute(self.config_class, key))

    def nullable_id(self, name: str, key: str, value: int | None) -> None:
        # A null in config.json is a value here: it overrides the default.
        if value is None:
            return
        if key in self.published:
            self.add(name, value, "config.json")
        else:
            self.add(name, value, "default", self.origins.attribute(self.config_class, key))


def effective_config(source: Source, reference: Reference) -> list[dict[str, Any]]:
    """The records of golden.md section 4, in order of name; names as in family-llama.md."""
    export = _Export(source, reference)
    _dimensions(export)
    _modules(export)
    _rope(export)
    _tokens(export)
    return sorted(export.fields, key=lambda record: record["name"])


def _dimensions(e: _Export) -> None:
    model, config = e.reference.model, e.reference.config
    e.add("family", config.model_type, "config.json" if "model_type" in e.published else "default",
          e.origins.attribute(e.config_class, "model_type"))
    e.add("architecture", type(model).__name__, "config.json")
    for name, key in (("vocab_size", "vocab_size"), ("hidden_size", "hidden_size"),
                      ("intermediate_size", "intermediate_size"), ("n_heads", "num_attention_heads"),
                      ("max_positions", "max_position_embeddings"), ("activation", "hidden_act"),
                      ("tie_word_embeddings", "tie_word_embeddings")):
        e.config_field(name, key, getattr(config, key))
    e.config_field("n_layers", "num_hidden_layers", len(model.model.layers))
    e.config_field("n_kv_heads", "num_key_value_heads", config.num_key_value_heads, derived="num_key_value_heads")
    e.config_field("head_dim", "head_dim", model.model.layers[0].self_attn.head_dim, derived="head_dim")
    e.add("padded_vocab_size", model.get_input_embeddings().weight.shape[0], "derived",
          e.origins.assignment(type(model.model), "embed_tokens"))
    dtype = e.reference.published_dtype
    if e.published.get("dtype") is not None or e.published.get("torch_dtype") is not None:
        e.add("source_dtype", dtype, "config.json")
    else:
        e.add("source_dtype", dtype, "derived", e.origins.call(
            modeling_utils._get_dtype, lambda node: isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "get_state_dict_dtype"))


def _modules(e: _Export) -> None:
    model = e.reference.model
    layer = model.model.layers[0]
    e.config_field("norm_eps", "rms_norm_eps", f64(layer.input_layernorm.variance_epsilon))
    for name, key in (("q", "attention_bias"), ("k", "attention_bias"), ("v", "attention_bias"), ("o", "attention_bias")):
        e.config_field(f"{name}_bias", key, getattr(layer.self_attn, f"{name}_proj").bias is not None)
    for name in ("gate", "up", "down"):
        e.config_field(f"{name}_bias", "mlp_bias", getattr(layer.mlp, f"{name}_proj").bias is not None)
    e.add("head_bias", model.lm_head.bias is not None, "derived", e.origins.assignment(type(model), "lm_head"))
    e.add("attention_scale", f64(layer.self_attn.scaling), "derived",
          e.origins.assignment(type(layer.self_attn), "scaling"))


def _rope(e: _Export) -> None:
    config, rotary = e.reference.config, e.reference.model.model.rotary_emb
    rope, kind = config.rope_parameters, config.rope_parameters["rope_type"]
    mixin = modeling_rope_utils.RotaryEmbeddingConfigMixin
    standardize = mixin.standardize_rope_params

    def given(name: str, key: str, value: Any, place: Callable[[], tuple[str, int] | None], *also: str) -> None:
        published = any(k in e.rope_published for k in (key, *also)) or e.published.get(key) is not None
        e.add(name, value, "config.json" if published else "default", None if published else place())

    given("rope_type", "rope_type", kind, lambda: e.origins.call(standardize, _mentions("rope_type", "setdefault")), "type")
    given("rope_theta", "rope_theta", f64(rope["rope_theta"]), lambda: e.origins.attribute(mixin, "default_theta"))
    frequencies = rotary.inv_freq.float().numpy()
    init = (modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters if kind == "default"
            else modeling_rope_utils.ROPE_INIT_FUNCTIONS[kind])
    computed = e.origins.call(init, lambda node: isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "inv_freq" for target in node.targets)) or e.origins.call(
        init, lambda node: isinstance(node, ast.Return))
    e.add("rope_dim", 2 * len(frequencies), "derived", computed)
    e.add("rope_inv_freq", frequencies.astype("<f4").tobytes(), "derived", computed)
    factor_line = e.origins.call(init, lambda node: isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "attention_factor" for target in node.targets))
    e.add("rope_attention_factor", f64(rotary.attention_scaling), "derived", factor_line)
    if kind == "default":
        return
    factor = rope.get("factor")
    if factor is None:
        factor = config.max_position_embeddings / rope["original_max_position_embeddings"]
    quotient = lambda: e.origins.call(init, lambda node: isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "factor" for target in node.targets)
        and isinstance(node.value, ast.BinOp))
    given("rope_factor", "factor", f64(factor), quotient)
    if kind in ("yarn", "llama3"):
        given("rope_original_max_position_embeddings", "original_max_position_embeddings",
              rope["original_max_position_embeddings"],
              lambda: e.origins.call(standardize, _mentions("original_max_position_embeddings", "setdefault")))
    if kind == "llama3":
        for key in ("low_freq_factor", "high_freq_factor"):
            given(f"rope_{key}", key, f64(rope[key]), lambda: None)
    if kind == "yarn":
        _yarn(e, rope, init, given)


def _yarn(e: _Export, rope: dict[str, Any], init: Callable, given: Callable) -> None:
    for key, default in (("beta_fast", 32), ("beta_slow", 1)):
        place = e.origins.call(init, _mentions(key, "get"))
        if rope.get(key):
            given(f"rope_{key}", key, f64(rope[key]), lambda: place)
        else:
            e.add(f"rope_{key}", f64(default), "default", place)
    for key in ("mscale", "mscale_all_dim"):
        if rope.get(key) is not None:
            given(f"rope_{key}", key, f64(rope[key]), lambda: None)
    given("rope_truncate", "truncate", bool(rope.get("truncate", True)),
          lambda: e.origins.call(init, _mentions("truncate", "get")))


def _tokens(e: _Export) -> None:
    config = e.reference.config
    e.nullable_id("bos_token_id", "bos_token_id", config.bos_token_id)
    # -1 in configurations converted from the first Llama: a padding row counted from the end, which inference never reads.
    e.nullable_id("pad_token_id", "pad_token_id", None if config.pad_token_id == -1 else config.pad_token_id)
    # from_pretrained reads generation_config.json, or where there is none the keys of config.json; what neither
    # declares is GenerationConfig's default, never the default of the model's configuration class.
    name = "config.json" if e.source.generation_config is None else "generation_config.json"
    declared = e.source.config if e.source.generation_config is None else e.source.generation_config
    if declared.get("eos_token_id") is not None:
        e.add("eos_token_ids", e.reference.eos, name)
    else:
        e.add("eos_token_ids", e.reference.eos, "default", e.origins.assignment(GenerationConfig, "eos_token_id"))
