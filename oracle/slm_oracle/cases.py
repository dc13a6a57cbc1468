"""Cases files (docs/spec/cases.md): strict, nothing ignored."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from . import OracleError

MAX_FILE_BYTES = 64 << 20
MAX_LINE_BYTES = 4 << 20
MAX_CASES = 65536
MAX_IDS = 1 << 20
MAX_MESSAGES = 4096
CLASSES = ("public_mechanical", "private_behavior_commitment")
# Fields of a batch record that change what a case computes: they stand only where they change nothing.
ONLY_BY_DEFAULT: dict[str, tuple[Any, ...]] = {
    "stop": (None, []), "stop_ids": (None, []), "tools": (None, []), "documents": (None, []), "sampling": (None, {})}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


@dataclass
class Case:
    id: str
    kind: str  # utf8, token_ids, messages
    data: bytes  # as golden.md's input.data
    text: str = ""
    ids: list[int] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    case_class: str = CLASSES[0]
    max_new_tokens: int = 0
    add_special_tokens: bool = True
    add_generation_prompt: bool = False
    stop_at_eos: bool = True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise OracleError("a key stands twice")
    return members


def _no_constant(text: str) -> Any:
    raise OracleError(f"{text} is not JSON")


def canonical_json(value: Any) -> bytes:
    """UTF-8, no blanks, members in their order: the form of messages in golden files."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def parse(data: bytes, name: str = "cases") -> list[Case]:
    if len(data) > MAX_FILE_BYTES:
        raise OracleError(f"{name}: larger than {MAX_FILE_BYTES} bytes")
    if not data:
        raise OracleError(f"{name}: no case")
    cases: list[Case] = []
    seen: set[str] = set()
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        try:
            if len(line) > MAX_LINE_BYTES or number > MAX_CASES:
                raise OracleError("past the limits of a cases file")
            record = json.loads(line.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
            case = _case(record)
            case.data.decode("utf-8", "strict") if case.kind != "token_ids" else None
        except (OracleError, ValueError) as error:
            raise OracleError(f"{name}:{number}: {error}") from error
        if case.id in seen:
            raise OracleError(f"{name}:{number}: id {case.id} stands twice")
        seen.add(case.id)
        cases.append(case)
    return cases


def _take(record: dict[str, Any], key: str, kind: type, default: Any) -> Any:
    value = record.pop(key, default)
    if type(value) is not kind:
        raise OracleError(f"{key} is not a {kind.__name__}")
    return value


def _take_defaults(record: dict[str, Any]) -> None:
    for key, defaults in ONLY_BY_DEFAULT.items():
        if record.pop(key, None) not in defaults:
            raise OracleError(f"a case runs without {key}")
    if _take(record, "special_tokens_as_text", bool, False):
        raise OracleError("a case runs without special_tokens_as_text")
    _take(record, "logits", str, "none")


def _case_id(value: Any) -> str:
    """The id as a text: an integer of 64 bits is its decimal digits."""
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return str(value)
    if not isinstance(value, str) or not 1 <= len(value.encode("utf-8")) <= 128 or _CONTROL.search(value):
        raise OracleError(f"bad id {value!r}")
    return value


def _case(record: Any) -> Case:
    if not isinstance(record, dict):
        raise OracleError("not an object")
    record = dict(record)
    case_id = _case_id(record.pop("id", None))
    inputs = [key for key in ("text", "ids", "messages") if key in record]
    if len(inputs) != 1:
        raise OracleError("exactly one of text, ids, messages")
    if inputs == ["text"]:
        text = _take(record, "text", str, None)
        case = Case(case_id, "utf8", text.encode("utf-8"), text=text)
        case.add_special_tokens = _take(record, "add_special_tokens", bool, True)
    elif inputs == ["ids"]:
        ids = _take(record, "ids", list, None)
        if not 1 <= len(ids) <= MAX_IDS or any(type(i) is not int or not 0 <= i < 1 << 32 for i in ids):
            raise OracleError("ids is not a list of token ids")
        case = Case(case_id, "token_ids", b"".join(i.to_bytes(4, "little") for i in ids), ids=ids)
    else:
        messages = _take(record, "messages", list, None)
        if not 1 <= len(messages) <= MAX_MESSAGES or any(not isinstance(m, dict) for m in messages):
            raise OracleError("messages is not a list of objects")
        case = Case(case_id, "messages", canonical_json(messages), messages=messages)
        case.add_generation_prompt = _take(record, "add_generation_prompt", bool, True)
    case.case_class = _take(record, "case_class", str, CLASSES[0])
    if case.case_class not in CLASSES:
        raise OracleError(f"unknown case_class {case.case_class}")
    case.max_new_tokens = _take(record, "max_new_tokens", int, 0)
    if not 0 <= case.max_new_tokens <= 1 << 20:
        raise OracleError("max_new_tokens out of range")
    case.stop_at_eos = _take(record, "stop_at_eos", bool, True)
    _take_defaults(record)
    if record:
        raise OracleError(f"unknown key {sorted(record)[0]}")
    return case
