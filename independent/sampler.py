"""The sampler as docs/spec/sampler.md states it, standard library only.

Exponentials come from `decimal`, which rounds e^x correctly to any number of digits; doubles and
float32 are rounded once from exact fractions. Nothing here is taken from src/.
"""
from __future__ import annotations

import decimal
import math
import struct
from dataclasses import dataclass, field
from fractions import Fraction

WORD = 0xFFFFFFFF


def philox4x32_10(counter: list[int], key: list[int]) -> list[int]:
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & WORD, (a >> 32) ^ c[3] ^ k[1], a & WORD]
        k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
    return c


def exp64(x: float) -> float:
    """e^x, rounded to the nearest double."""
    if x == 0:
        return 1.0
    if x < -800:
        return 0.0
    for digits in (60, 120, 240):
        with decimal.localcontext() as context:
            context.prec = digits
            context.Emin, context.Emax = -99999, 99999
            value = Fraction(decimal.Decimal(x).exp())
        margin = value / 10 ** (digits - 1)
        below, above = to_double(value - margin), to_double(value + margin)
        if below == above:
            return below
    raise ArithmeticError("no double is half way between two others here")


def to_double(value: Fraction) -> float:
    try:
        return float(value)  # Fraction's division rounds once, subnormal results included
    except OverflowError:
        return math.inf


def to_float(value: Fraction) -> float:
    """The nearest float32, ties to even; infinity beyond the largest."""
    if value == 0:
        return 0.0
    sign = -1 if value < 0 else 1
    value = abs(value)
    exponent = max(-126, value.numerator.bit_length() - value.denominator.bit_length() - 1)
    while Fraction(2) ** (exponent + 1) <= value:
        exponent += 1
    unit = Fraction(2) ** (exponent - 23)
    quotient, rest = divmod(value, unit)
    if rest * 2 > unit or (rest * 2 == unit and quotient % 2 == 1):
        quotient += 1
    rounded = quotient * unit
    return sign * (math.inf if rounded >= Fraction(2) ** 128 else float(rounded))


def float_bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def double_bits(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


@dataclass
class Options:
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    penalty: float = 1.0  # a float32
    window: int = -1
    min_new_tokens: int = 0
    seed: int = 0
    stream: int = 0
    turn: int = 0
    bans: list[int] = field(default_factory=list)
    eos: list[int] = field(default_factory=list)


def refusal(options: Options, vocabulary: int) -> str | None:
    """The option that is out of range."""
    if not math.isfinite(options.temperature) or not (options.temperature == 0 or options.temperature >= 2.0**-126):
        return "temperature"
    for name in ("top_p", "min_p"):
        if not 0 <= getattr(options, name) <= 1:
            return name
    if not (math.isfinite(options.penalty) and options.penalty > 0):
        return "repetition_penalty"
    for name, ids in (("bans", options.bans), ("eos_token_id", options.eos)):
        if any(i >= vocabulary for i in ids):
            return name
    return None


def sample(options: Options, logits: list[float], context: list[int], forbidden: list[int], token_index: int) -> str:
    """The line that sample_eval prints for one step."""
    for i, logit in enumerate(logits):
        if not math.isfinite(logit):
            return f"NONFINITE logits[{i}]"
    masked = set(options.bans) | set(forbidden)
    if token_index < options.min_new_tokens:
        masked |= set(options.eos)
    if len(masked) == len(logits):
        return "SMP-MASKED "
    window = context if options.window < 0 else context[len(context) - min(options.window, len(context)):]
    seen = set(window) - masked if options.penalty != 1 else set()
    row = []
    for i, logit in enumerate(logits):
        if i in masked:
            continue
        if i in seen:
            exact, penalty = Fraction(logit), Fraction(options.penalty)
            zero = logit == 0
            changed = to_float(exact * penalty if logit < 0 else exact / penalty)
            logit = logit if zero else math.copysign(changed, logit)
            if math.isinf(logit):
                return "NONFINITE repetition_penalty"
        row.append((i, logit))
    row.sort(key=lambda pair: (-pair[1], pair[0]))
    head = f"{len(masked)} {len(seen)}"
    if options.temperature == 0:
        return f"{row[0][0]} 0 {head} 0 0 0 00000000 0 {0:016x}"
    if options.top_k > 0:
        row = row[:options.top_k]
    n_top_k = len(row)
    scaled = [logit / options.temperature for _, logit in row]
    weights = [exp64(value - scaled[0]) for value in scaled]
    total = 0.0
    for weight in weights:
        total += weight
    probabilities = [weight / total for weight in weights]
    if options.top_p < 1:
        cumulative, kept = 0.0, []
        for probability in probabilities:
            kept.append(probability)
            cumulative += probability
            if cumulative >= options.top_p:
                break
        probabilities = kept
    n_top_p = len(probabilities)
    probabilities = [p for p in probabilities if p >= options.min_p * probabilities[0]]
    mass = 0.0
    for probability in probabilities:
        mass += probability
    draw = philox4x32_10([0, token_index & WORD, options.turn, options.stream],
                         [options.seed & WORD, options.seed >> 32])[0]
    interval, cumulative = len(probabilities) - 1, 0.0
    for i, probability in enumerate(probabilities):
        cumulative += probability / mass
        if cumulative > draw * 2.0**-32:
            interval = i
            break
    survivors = "".join(f" {i}:{float_bits(logit):08x}:{double_bits(p):016x}" for (i, logit), p in zip(row, probabilities))
    return (f"{row[interval][0]} 1 {head} {n_top_k} {n_top_p} {len(probabilities)} {draw:08x} {interval} "
            f"{double_bits(mass):016x}{survivors}")
