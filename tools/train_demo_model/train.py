"""Trains the demo model and writes it as a Hugging Face directory.

    python train.py OUT_DIR [--seed 1] [--steps 1000]

Everything is drawn from the seed: the text (grammar.py), the tokenizer, the initial weights and the order of
the batches. One thread and deterministic algorithms: the same seed on the same machine gives the same bytes.
Another CPU may round differently in the matrix products and give other weights; the held-out check
(check_heldout.py) is what a new training has to pass.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import random
import shutil
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import grammar

HERE = pathlib.Path(__file__).resolve().parent
BOS, TURN_BEGIN, TURN_END, PAD = "<|bos|>", "<|im_start|>", "<|im_end|>", "<|pad|>"
CONTEXT = 256
BATCH, POOL = 16, 16  # sequences in a batch; batches that are sorted by length together
HELDOUT_SEED, HELDOUT_COUNT = 1, 50
EMBEDDING_SCALE, OUTPUT_SCALE = 0.5, 0.08  # standard deviations at the start


def train_tokenizer(seed: int) -> Tokenizer:
    """Byte-level BPE, each digit a token of its own, trained on dialogues of the grammar."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
    trainer = trainers.BpeTrainer(
        vocab_size=509,  # a prime: no row group of any width is full
        min_frequency=2,
        show_progress=False,
        special_tokens=[
            AddedToken(t, normalized=False, special=True) for t in (BOS, TURN_BEGIN, TURN_END, PAD)
        ],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    dialogues = itertools.islice(grammar.training(seed, set()), 4000)
    tokenizer.train_from_iterator((f"{m['role']}\n{m['content']}" for d in dialogues for m in d), trainer)
    bos_id = tokenizer.token_to_id(BOS)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS}:1 $B:1", special_tokens=[(BOS, bos_id)]
    )
    return tokenizer


def hub_tokenizer(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=TURN_END,
        pad_token=PAD,
        additional_special_tokens=[TURN_BEGIN],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = (HERE / "chat_template.jinja").read_text(encoding="utf-8")
    return wrapped


def new_model(tokenizer: Tokenizer) -> LlamaForCausalLM:
    """Dimensions chosen to exercise a runtime: short last blocks (120, 200, 24 are no multiples of 32),
    padded row groups (120, 200 and the vocabulary are no multiples of 16), a head width apart from
    hidden_size / heads, grouped-query heads, a separate output matrix."""
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=120,
        intermediate_size=200,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=24,
        hidden_act="silu",
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        initializer_range=0.04,
        tie_word_embeddings=False,
        attention_bias=True,
        mlp_bias=False,
        bos_token_id=tokenizer.token_to_id(BOS),
        eos_token_id=tokenizer.token_to_id(TURN_END),
        pad_token_id=tokenizer.token_to_id(PAD),
        dtype="float32",
    )
    model = LlamaForCausalLM(config)
    begin_with_recall(model)
    return model


@torch.no_grad()
def begin_with_recall(model: LlamaForCausalLM) -> None:
    """Initial weights in which a few heads already look facts up. Without them the model first has to find,
    by chance and together, heads that look a fixed distance back, heads that match what those bring, and an
    output that names what was found; that takes far longer than the rest of the training.

    Heads 0 and 1 of layer 0 attend one and two positions back. With query bias R(1 - c) u and key bias R(1) u
    the rotated score of positions m and n is the sum over rotary pairs of |u_i|^2 cos(f_i (n - m + c)),
    largest c positions back; only the fast pairs tell neighbours apart. Both write a projection A of the id
    they see, by B1 and B2. In layer 1, head 0 looks for the place whose predecessor (B1) is the present id
    (A), and head 3 for the place whose second predecessor (B2) is the predecessor of this one (B1): it finds
    `red` from `The cat is`. They use the slow pairs, which distance hardly turns, and copy by a projection C
    and its transpose. The output matrix starts as a copy of the embedding."""
    head_dim, hidden, layers = model.config.head_dim, model.config.hidden_size, model.model.layers
    model.model.embed_tokens.weight.normal_(std=EMBEDDING_SCALE)
    model.lm_head.weight.copy_(model.model.embed_tokens.weight * (OUTPUT_SCALE / EMBEDDING_SCALE))
    for layer in layers:  # so that a block's random output does not drown the ids at first
        layer.self_attn.o_proj.weight *= 0.1
        layer.mlp.down_proj.weight *= 0.1
    half, n_fast, strength = head_dim // 2, 5, 6.0
    fast = torch.arange(n_fast)
    slow = torch.cat([torch.arange(n_fast, half), torch.arange(n_fast, half) + half])
    angles = model.model.rotary_emb.inv_freq[fast]

    def head(index: int) -> slice:
        return slice(index * head_dim, (index + 1) * head_dim)

    def turned(bias: torch.Tensor, begin: int, by: torch.Tensor) -> None:
        bias[begin + fast] = strength * torch.cos(by)
        bias[begin + half + fast] = strength * torch.sin(by)

    project_a = torch.randn(head_dim, hidden) / hidden**0.5
    write_b = [torch.randn(hidden, head_dim) / head_dim**0.5 for _ in range(2)]
    read_b = [b.T * head_dim / hidden for b in write_b]
    back = layers[0].self_attn
    back.k_proj.weight[head(0)] *= 0.1
    back.v_proj.weight[head(0)] = project_a
    turned(back.k_proj.bias, 0, angles)
    for index in range(2):
        back.q_proj.weight[head(index)] *= 0.1
        turned(back.q_proj.bias, index * head_dim, -index * angles)
        back.o_proj.weight[:, head(index)] = EMBEDDING_SCALE * write_b[index]

    match = layers[1].self_attn
    for index, shared, asks, finds in ((0, 0, project_a, read_b[0]), (3, 1, read_b[0], read_b[1])):
        project_c = torch.randn(head_dim, hidden) / hidden**0.5
        match.q_proj.weight[head(index)] *= 0.1
        match.k_proj.weight[head(shared)] *= 0.1
        match.q_proj.weight[index * head_dim + slow] = 3.5 * asks[slow]
        match.k_proj.weight[shared * head_dim + slow] = 3.5 * finds[slow]
        match.v_proj.weight[head(shared)] = project_c
        match.o_proj.weight[:, head(index)] = 8.0 * EMBEDDING_SCALE * project_c.T


def tokenize(tokenizer: Tokenizer, messages: list[grammar.Message]) -> tuple[list[int], list[float]]:
    """The ids of a dialogue as the template renders it, and the loss weight of each id: what the assistant
    says (with its end marker) counts fully, the rest a little, so that free text stays plausible."""
    ids, weights = [tokenizer.token_to_id(BOS)], [0.0]
    for message in messages:
        head = f"{TURN_BEGIN}{message['role']}\n"
        answering = message["role"] == "assistant"
        for text, weight in (
            (head, 0.1),
            (message["content"] + TURN_END, 1.0 if answering else 0.1),
            ("\n", 0.1),
        ):
            part = tokenizer.encode(text, add_special_tokens=False).ids
            ids += part
            weights += [weight] * len(part)
    return ids, weights


def recall_drill(rng: random.Random, n_ids: int, first_id: int) -> tuple[list[int], list[float]]:
    """Facts made of random ids, (key, filler..., value) with one filler for all, then the same facts in
    another order: each value follows from where its key stood before. It teaches looking back long before
    dialogues, with two or three facts each, would."""
    length = rng.randrange(2)
    draw = rng.sample(range(first_id, n_ids), length + 16)
    filler, rest = draw[:length], draw[length:]
    facts = [(rest[2 * i], rest[2 * i + 1]) for i in range(rng.randint(2, 6))]
    ids, weights = [0], [0.0]
    for again, (key, value) in [(0.0, fact) for fact in facts] + [
        (1.0, fact) for fact in rng.sample(facts, len(facts))
    ]:
        ids += [key, *filler, value]
        weights += [0.0] + [0.1 * again] * length + [again]
    return ids, weights


def batches(tokenizer: Tokenizer, seed: int, n_drills: int):
    """Endless batches of (ids, weights): `n_drills` of recall drills, then dialogues. A batch holds sequences
    of like length, padded to the longest."""
    excluded = {grammar.prompt_key(d) for d in grammar.heldout(HELDOUT_SEED, HELDOUT_COUNT)}
    dialogues, rng = grammar.training(seed, excluded), random.Random(f"order-{seed}")
    pad_id, n_ids = tokenizer.token_to_id(PAD), tokenizer.get_vocab_size()
    produced = 0
    while True:
        if produced < n_drills:
            pool = [recall_drill(rng, n_ids, pad_id + 1) for _ in range(BATCH * POOL)]
        else:
            pool = [tokenize(tokenizer, next(dialogues)) for _ in range(BATCH * POOL)]
        pool.sort(key=lambda item: len(item[0]))
        chunks = [pool[i : i + BATCH] for i in range(0, len(pool), BATCH)]
        rng.shuffle(chunks)
        produced += len(chunks)
        for chunk in chunks:
            width = max(len(ids) for ids, _ in chunk)
            yield (
                torch.tensor([ids + [pad_id] * (width - len(ids)) for ids, _ in chunk]),
                torch.tensor([weights + [0.0] * (width - len(weights)) for _, weights in chunk]),
            )


class Muon(torch.optim.Optimizer):
    """Momentum whose step is made orthogonal (Jordan et al., 2024): each update matrix is pushed toward
    singular values of one by five steps of a Newton-Schulz iteration. For the matrices inside the layers."""

    def __init__(self, matrices: list[torch.nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum})

    @staticmethod
    def orthogonal(update: torch.Tensor) -> torch.Tensor:
        wide = update.size(0) <= update.size(1)
        x = update if wide else update.T
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            square = x @ x.T
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
        return x if wide else x.T

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                average = state.setdefault("average", torch.zeros_like(matrix))
                average.mul_(group["momentum"]).add_(matrix.grad)
                update = self.orthogonal(matrix.grad.add(average, alpha=group["momentum"]))
                scale = max(1.0, matrix.size(0) / matrix.size(1)) ** 0.5
                matrix.mul_(1 - 0.05 * group["lr"]).add_(update, alpha=-group["lr"] * scale)


def learning_rate_factor(step: int, steps: int) -> float:
    """Rises over 60 steps, stays, falls in a straight line over the last half."""
    return min(1.0, (step + 1) / 60, 2 * (steps - step) / steps)


def train(model: LlamaForCausalLM, tokenizer: Tokenizer, seed: int, steps: int, n_drills: int) -> None:
    inside = [p for name, p in model.named_parameters() if p.dim() == 2 and ".layers." in name]
    outside = [p for name, p in model.named_parameters() if p.dim() != 2 or ".layers." not in name]
    optimizers = [
        Muon(inside, lr=0.02),
        torch.optim.AdamW(outside, lr=4e-3, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    model.train()
    source, begin = batches(tokenizer, seed, n_drills), time.monotonic()
    right, asked = 0, 0
    for step in range(steps):
        ids, weights = next(source)
        for optimizer, peak in zip(optimizers, peaks):
            for group, lr in zip(optimizer.param_groups, peak):
                group["lr"] = lr * learning_rate_factor(step, steps)
        logits, targets, weights = (
            model(input_ids=ids, use_cache=False).logits[:, :-1],
            ids[:, 1:],
            weights[:, 1:],
        )
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        loss = (loss * weights.flatten()).sum() / weights.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        answer = weights == 1.0
        right += int(((logits.argmax(-1) == targets) & answer).sum())
        asked += int(answer.sum())
        if step % 50 == 49:
            share, right, asked = right / asked, 0, 0
            seconds = time.monotonic() - begin
            print(f"step {step + 1} loss {loss.item():.4f} answer ids {share:.4f} {seconds:.0f}s", flush=True)


def write(out: pathlib.Path, model: LlamaForCausalLM, tokenizer: Tokenizer) -> None:
    out.mkdir(parents=True, exist_ok=True)
    model.eval()
    eos, pad, bos = (tokenizer.token_to_id(t) for t in (TURN_END, PAD, BOS))
    model.generation_config = GenerationConfig(bos_token_id=bos, eos_token_id=eos, pad_token_id=pad)
    model.save_pretrained(out)
    hub_tokenizer(tokenizer).save_pretrained(out)
    for name in ("README.md", "LICENSE"):
        shutil.copyfile(HERE / "card" / name, out / name)
    for file in out.iterdir():
        file.chmod(0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--drills", type=int, default=100, help="how many of the steps are recall drills")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    tokenizer = train_tokenizer(args.seed)
    model = new_model(tokenizer)
    print(f"vocabulary {tokenizer.get_vocab_size()}, parameters {sum(p.numel() for p in model.parameters())}")
    train(model, tokenizer, args.seed, args.steps, args.drills)
    write(args.out, model, tokenizer)


if __name__ == "__main__":
    main()
