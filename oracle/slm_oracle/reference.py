"""The pinned source framework, run as it is, with every stage observed (ORA-02 modes source and reference)."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.models.llama import modeling_llama

from . import OracleError
from .source import Source

Tap = Callable[[str, "int | None", Any], None]
DTYPE_NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def published_dtype(source: Source) -> str:
    """What from_pretrained(dtype="auto") loads: the configuration's dtype, else that of the first tensor."""
    declared = AutoConfig.from_pretrained(source.directory, local_files_only=True, trust_remote_code=False).dtype
    return DTYPE_NAMES[declared] if declared is not None else next(iter(source.tensors().values())).dtype


def configure_framework(threads: int) -> None:
    """Everything that could make two runs differ is fixed; what cannot be fixed is recorded in the receipt."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def numpy_of(tensor: torch.Tensor) -> np.ndarray:
    """Values of a tensor; bf16 as raw 16-bit words (dtype '<u2'), f16 widened to float32 exactly."""
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    if tensor.dtype == torch.float16:
        tensor = tensor.float()
    return tensor.numpy()


class Reference:
    def __init__(self, source: Source, mode: str) -> None:
        dtype: Any = "auto" if mode == "source" else torch.float32
        self.model = AutoModelForCausalLM.from_pretrained(
            source.directory, dtype=dtype, attn_implementation="eager", local_files_only=True,
            trust_remote_code=False, use_safetensors=True, device_map=None).eval()
        if type(self.model).__module__ != modeling_llama.__name__:
            raise OracleError(f"{type(self.model).__name__} has no observation points here")
        self.config = self.model.config
        self.dtype = DTYPE_NAMES[self.model.dtype]
        self.published_dtype = published_dtype(source)
        if self.dtype != (self.published_dtype if mode == "source" else "f32"):
            raise OracleError(f"the framework loaded {self.dtype} in mode {mode}")
        eos = self.model.generation_config.eos_token_id
        self.eos = sorted({eos} if isinstance(eos, int) else set(eos or []))

    def tensor_hashes(self) -> list[dict[str, Any]]:
        """SHA-256 of every parameter as loaded (L3); a tied tensor stands once."""
        result = []
        for name, tensor in sorted(self.model.named_parameters()):
            raw = tensor.detach().contiguous().view(torch.uint8).numpy() if tensor.dim() else tensor.numpy()
            result.append({"name": name, "dtype": DTYPE_NAMES[tensor.dtype], "shape": list(tensor.shape),
                           "sha256": hashlib.sha256(raw).digest()})
        return result

    @contextmanager
    def _hooks(self, tap: Tap) -> Iterator[None]:
        handles = []

        def after(module: torch.nn.Module, role: str, layer: int | None, view: Callable | None = None) -> None:
            def hook(_module: Any, _inputs: Any, output: Any) -> None:
                value = output[0] if isinstance(output, tuple) else output
                tap(role, layer, view(value[0]) if view else value[0])
            handles.append(module.register_forward_hook(hook))

        def before(module: torch.nn.Module, role: str, layer: int | None) -> None:
            handles.append(module.register_forward_pre_hook(lambda _module, inputs: tap(role, layer, inputs[0][0])))

        inner = self.model.model
        after(inner.embed_tokens, "embed", None)
        for index, layer in enumerate(inner.layers):
            attention = layer.self_attn
            heads = lambda value, size=attention.head_dim: value.view(value.shape[0], -1, size)
            after(layer.input_layernorm, "attn_norm", index)
            after(attention.q_proj, "attn.q", index, heads)
            after(attention.k_proj, "attn.k", index, heads)
            after(attention.v_proj, "attn.v", index, heads)
            after(attention.o_proj, "attn.out", index)
            before(layer.post_attention_layernorm, "attn_residual", index)
            after(layer.post_attention_layernorm, "mlp_norm", index)
            after(layer.mlp.gate_proj, "mlp.gate", index)
            after(layer.mlp.up_proj, "mlp.up", index)
            before(layer.mlp.down_proj, "mlp.act", index)
            after(layer.mlp.down_proj, "mlp.down", index)
            after(layer, "output", index)
        after(inner.norm, "final_norm", None)

        pinned = modeling_llama.eager_attention_forward

        def observed(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                     attention_mask: torch.Tensor | None, scaling: float, **kwargs: Any) -> Any:
            output, probs = pinned(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
            layer = module.layer_idx
            # The pinned function does not hand out its scores: the same product again, and proof that it is the same.
            shared = modeling_llama.repeat_kv(key, module.num_key_value_groups)
            scores = torch.matmul(query, shared.transpose(2, 3)) * scaling
            masked = scores if attention_mask is None else scores + attention_mask
            again = torch.nn.functional.softmax(masked, dim=-1, dtype=torch.float32).to(query.dtype)
            if not torch.equal(again, probs):
                raise OracleError(f"layer {layer}: the observed scores do not give the probabilities")
            if attention_mask is None:
                if scores.shape[-1] != 1:
                    raise OracleError(f"layer {layer}: no mask over {scores.shape[-1]} positions")
                visible = np.ones((1, 1), bool)
            else:
                visible = (attention_mask[0, 0] == 0).numpy()
            tap("attn.q_rope", layer, query[0].transpose(0, 1))
            tap("attn.k_rope", layer, key[0].transpose(0, 1))
            tap("attn.mask", layer, visible)
            tap("attn.scores", layer, scores[0])
            tap("attn.probs", layer, probs[0])
            tap("attn.av", layer, output[0])
            return output, probs

        modeling_llama.eager_attention_forward = observed
        try:
            yield
        finally:
            modeling_llama.eager_attention_forward = pinned
            for handle in handles:
                handle.remove()

    def observe(self, ids: list[int], tap: Tap) -> torch.Tensor:
        """Logits [T, vocab] of one call over all positions, and every stage to the tap."""
        inputs = torch.tensor([ids])
        plain = self.model(inputs, use_cache=True).logits
        with self._hooks(tap):
            logits = self.model(inputs, use_cache=True).logits
        if not torch.equal(plain, logits):
            raise OracleError("the observed run and a plain run differ: the framework does not repeat itself")
        if not bool(torch.isfinite(logits).all()):
            raise OracleError("a logit is not finite")
        return logits[0]

    def logits(self, ids: list[int]) -> torch.Tensor:
        return self.model(torch.tensor([ids]), use_cache=True).logits[0]

    def generate(self, ids: list[int], max_new_tokens: int, eos: list[int]) -> tuple[list[int], list[np.ndarray]]:
        """Greedy by the framework's own generate; the raw logits of each step beside the tokens."""
        config = GenerationConfig(do_sample=False, num_beams=1, max_new_tokens=max_new_tokens, use_cache=True,
                                  eos_token_id=eos or None, pad_token_id=eos[0] if eos else 0,
                                  return_dict_in_generate=True, output_logits=True)
        # Replaced, not passed: generate() fills gaps of an argument from the model's own generation settings.
        kept = self.model.generation_config
        self.model.generation_config = config
        try:
            result = self.model.generate(torch.tensor([ids]), attention_mask=torch.ones((1, len(ids)), dtype=torch.long))
        finally:
            self.model.generation_config = kept
        tokens = result.sequences[0, len(ids):].tolist()
        steps = [step[0].float().numpy() for step in result.logits]
        for token, step in zip(tokens, steps, strict=True):
            if int(np.argmax(step)) != token:  # argmax: the first of equal values, the lowest id
                raise OracleError(f"generate chose {token} where the lowest best id is {int(np.argmax(step))}")
        return tokens, steps
