"""Who put each byte of a rendered prompt there (L2): the template is rendered a second time with stand-in characters.

Each text of the context is replaced by one whose characters are its own and stand nowhere else, yet which compares
as the text that it stands for. Where the second rendering, read back through the stand-ins, is the first one
character for character, its stand-ins say where each came from. A template that looks inside a text in a way the
stand-ins do not survive gives no ownership, never a guess."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterator

# Private use: no rule of Unicode text touches them, and a template never holds them.
_PRIVATE = (range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
# White space must stay white space, or trimming would do something else: one kind for each text of the context.
_BLANKS = "\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u205f\u3000\x1c\x1d\x1e\x1f\x85\xa0"


class _Unclear(Exception):
    """The owners cannot be shown."""


class _StandIn(str):
    """Holds stand-in characters, compares as the real text."""

    real: str

    def __new__(cls, characters: str, real: str) -> "_StandIn":
        self = super().__new__(cls, characters)
        self.real = real
        return self

    def __eq__(self, other: object) -> bool:
        return self.real == (other.real if isinstance(other, _StandIn) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.real)

    def __contains__(self, part: Any) -> bool:
        return part in self.real

    def startswith(self, *arguments: Any) -> bool:
        return self.real.startswith(*arguments)

    def endswith(self, *arguments: Any) -> bool:
        return self.real.endswith(*arguments)


class _Marker:
    def __init__(self, taken: str) -> None:
        self._private: Iterator[int] = itertools.chain(*_PRIVATE)
        self._blanks = iter([blank for blank in _BLANKS if blank not in taken])
        self._taken = set(taken)
        self.meaning: dict[str, tuple[str | None, str]] = {}  # stand-in -> (real character, owner); None: any white space

    def text(self, text: str, owner: str) -> _StandIn:
        blank = None
        out = []
        for letter in text:
            if letter.isspace():
                if blank is None:
                    blank = next(self._blanks, None)
                    if blank is None:
                        raise _Unclear
                    self.meaning[blank] = (None, owner)
                out.append(blank)
                continue
            code = next(self._private, None)
            if code is None or chr(code) in self._taken:
                raise _Unclear
            self.meaning[chr(code)] = (letter, owner)
            out.append(chr(code))
        return _StandIn("".join(out), text)

    def value(self, value: Any, path: str) -> Any:
        if isinstance(value, str):
            return self.text(value, path)
        if isinstance(value, list):
            return [self.value(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self.value(item, f"{path}.{key}") for key, item in value.items()}
        if value is None or isinstance(value, bool):
            return value
        raise _Unclear  # a number has no characters of its own


def ownership(render: Callable[[list[Any]], str], messages: list[Any], rendered: str) -> list[dict[str, Any]] | None:
    """Intervals of bytes with their owners, in order, covering `rendered`; none where they cannot be shown.
    Owners are `template` (the source's special tokens included) and `messages[2].content` and the like."""
    try:
        marker = _Marker(rendered)
        again = render(marker.value(messages, "messages"))
    except Exception:  # whatever a template raises on a text that is not what it expects
        return None
    if len(again) != len(rendered):
        return None
    spans: list[dict[str, Any]] = []
    at = 0
    for stand_in, letter in zip(again, rendered, strict=True):
        real, owner = marker.meaning.get(stand_in, (stand_in, "template"))
        if real != letter and not (real is None and letter.isspace()):
            return None
        end = at + len(letter.encode("utf-8"))
        if spans and spans[-1]["owner"] == owner:
            spans[-1]["end"] = end
        else:
            spans.append({"begin": at, "end": end, "owner": owner})
        at = end
    return spans
