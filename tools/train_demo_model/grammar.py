"""The question grammar of the demo model: a seeded generator and an independent checker.

A dialogue is a list of chat messages. The generator states facts, asks a question and writes the answer
that follows by construction. The checker works the other way: it reads the messages as text, rebuilds the
facts with a parser, and decides by itself which answer is right. Neither calls the other, so each tests the
other (`python grammar.py check`).

Sentences of a user message:
    The ANIMAL is COLOUR.          What colour is the ANIMAL?
    NAME likes FOOD.               What does NAME like?
    NAME plays GAME.               What does NAME play?
    NAME has DIGIT GOODS.          How many GOODS do they have?
                                   What is DIGIT plus DIGIT?     Put DIGIT, DIGIT, DIGIT in order.
A message of facts alone is answered with "Noted." A question that the facts do not settle is answered with
"I do not know." Standard library only.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

NAMES = "Ada Ben Cleo Dan Eva Finn Gus Hana Ivo Jana Kai Lena Max Nora Omar Pia".split()
ANIMALS = "cat dog fox hen cow owl pig bee duck goat frog mouse".split()
COLOURS = "red blue green black white brown grey gold pink yellow".split()
FOODS = "tea milk bread soup rice cake plums honey beans nuts".split()
GAMES = "chess tennis cards golf darts hockey bowls rugby".split()
GOODS = "coins apples stones shells stamps".split()
SYSTEMS = ["Answer in one sentence.", "You are a careful assistant."]
UNKNOWN = "I do not know."
NOTED = "Noted."

Message = dict[str, str]

# ---------------------------------------------------------------------------------------------- generator


@dataclass
class Topic:
    """Facts that share a subject matter, and the (question, answer) pairs they allow."""

    facts: list[str]
    ask: Callable[[], tuple[str, str]]


def _pairs(rng: random.Random, left: list[str], right: list[str]) -> tuple[list[tuple[str, str]], str]:
    """Two or three distinct pairs, and an unused item of the left side."""
    count = rng.choice([2, 3])
    *lefts, other = rng.sample(left, count + 1)
    return list(zip(lefts, rng.sample(right, count))), other


def _colour_topic(rng: random.Random) -> Topic:
    pairs, other = _pairs(rng, ANIMALS, COLOURS)

    def ask() -> tuple[str, str]:
        animal, colour = rng.choice(pairs)
        if rng.randrange(8) == 0:
            return f"What colour is the {other}?", UNKNOWN
        return f"What colour is the {animal}?", f"The {animal} is {colour}."

    return Topic([f"The {a} is {c}." for a, c in pairs], ask)


def _food_topic(rng: random.Random) -> Topic:
    pairs, other = _pairs(rng, NAMES, FOODS)

    def ask() -> tuple[str, str]:
        name, food = rng.choice(pairs)
        if rng.randrange(8) == 0:
            return f"What does {other} like?", UNKNOWN
        return f"What does {name} like?", f"{name} likes {food}."

    return Topic([f"{n} likes {f}." for n, f in pairs], ask)


def _game_topic(rng: random.Random) -> Topic:
    pairs, other = _pairs(rng, NAMES, GAMES)

    def ask() -> tuple[str, str]:
        name, game = rng.choice(pairs)
        if rng.randrange(8) == 0:
            return f"What does {other} play?", UNKNOWN
        return f"What does {name} play?", f"{name} plays {game}."

    return Topic([f"{n} plays {g}." for n, g in pairs], ask)


def _count_topic(rng: random.Random) -> Topic:
    (first, second), goods = rng.sample(NAMES, 2), rng.choice(GOODS)
    a, b = rng.sample(range(1, 10), 2)

    def ask() -> tuple[str, str]:
        return f"How many {goods} do they have?", f"They have {a + b} {goods}."

    return Topic([f"{first} has {a} {goods}.", f"{second} has {b} {goods}."], ask)


def _number_question(rng: random.Random) -> tuple[str, str]:
    if rng.randrange(2):
        a, b = rng.randrange(1, 10), rng.randrange(1, 10)
        return f"What is {a} plus {b}?", f"{a} plus {b} is {a + b}."
    digits = rng.sample(range(10), 3)
    return (
        f"Put {digits[0]}, {digits[1]}, {digits[2]} in order.",
        "{}, {}, {}.".format(*sorted(digits)),
    )


def dialogue(rng: random.Random) -> list[Message]:
    """One dialogue that ends with the assistant's answer."""
    messages: list[Message] = []
    if rng.randrange(10) < 3:
        messages.append({"role": "system", "content": rng.choice(SYSTEMS)})

    def turn(user: str, assistant: str) -> None:
        messages.append({"role": "user", "content": user})
        messages.append({"role": "assistant", "content": assistant})

    if rng.randrange(5) == 0:
        for _ in range(rng.choice([1, 2, 3])):
            turn(*_number_question(rng))
        return messages
    make = rng.choice([_colour_topic, _food_topic, _game_topic, _count_topic])
    topic = make(rng)
    opening = " ".join(topic.facts) + " "
    if rng.randrange(5) == 0:  # facts first, the questions in turns of their own
        turn(opening[:-1], NOTED)
        opening = ""
    asked = ""
    for _ in range(1 if make is _count_topic else rng.choice([1, 2, 3])):
        question, answer = topic.ask()
        while question == asked:
            question, answer = topic.ask()
        turn(opening + question, answer)
        opening, asked = "", question
    if rng.randrange(10) == 0:
        turn(*_number_question(rng))
    return messages


def prompt_key(messages: list[Message]) -> str:
    """What makes two prompts the same: every message before the last answer."""
    return json.dumps(messages[:-1], ensure_ascii=True, separators=(",", ":"), sort_keys=True)


def heldout(seed: int, count: int) -> list[list[Message]]:
    """`count` different dialogues drawn from `seed`; training skips every prompt among them."""
    rng, found = random.Random(f"heldout-{seed}"), {}
    while len(found) < count:
        messages = dialogue(rng)
        found.setdefault(prompt_key(messages), messages)
    return list(found.values())


def training(seed: int, excluded: set[str]) -> Iterator[list[Message]]:
    """An endless stream of dialogues whose prompts, at any turn, are not in `excluded`."""
    rng = random.Random(f"training-{seed}")
    while True:
        messages = dialogue(rng)
        ends = [i + 1 for i, m in enumerate(messages) if m["role"] == "assistant"]
        if not any(prompt_key(messages[:end]) in excluded for end in ends):
            yield messages


# ------------------------------------------------------------------------------------------------ checker


@dataclass
class World:
    """What the user has said so far."""

    colour: dict[str, str] = field(default_factory=dict)
    food: dict[str, str] = field(default_factory=dict)
    game: dict[str, str] = field(default_factory=dict)
    amount: dict[str, dict[str, int]] = field(default_factory=dict)


class GrammarError(ValueError):
    """A sentence that is not in the grammar."""


def _one_of(words: list[str]) -> str:
    return "(" + "|".join(words) + ")"


_NAME, _ANIMAL, _COLOUR = _one_of(NAMES), _one_of(ANIMALS), _one_of(COLOURS)
_FOOD, _GAME, _GOODS = _one_of(FOODS), _one_of(GAMES), _one_of(GOODS)
_SENTENCE = re.compile(r"[^.?]+[.?]")


def _state(world: World, sentence: str) -> bool:
    """Records a fact; False when the sentence is not one."""
    if match := re.fullmatch(rf"The {_ANIMAL} is {_COLOUR}\.", sentence):
        world.colour[match[1]] = match[2]
    elif match := re.fullmatch(rf"{_NAME} likes {_FOOD}\.", sentence):
        world.food[match[1]] = match[2]
    elif match := re.fullmatch(rf"{_NAME} plays {_GAME}\.", sentence):
        world.game[match[1]] = match[2]
    elif match := re.fullmatch(rf"{_NAME} has ([0-9]) {_GOODS}\.", sentence):
        world.amount.setdefault(match[3], {})[match[1]] = int(match[2])
    else:
        return False
    return True


def _recall(relation: dict[str, str], key: str, says: str) -> str:
    return says.format(key, relation[key]) if key in relation else UNKNOWN


def _answer(world: World, sentence: str) -> str:
    if match := re.fullmatch(r"What is ([0-9]) plus ([0-9])\?", sentence):
        return f"{match[1]} plus {match[2]} is {int(match[1]) + int(match[2])}."
    if match := re.fullmatch(r"Put ([0-9]), ([0-9]), ([0-9]) in order\.", sentence):
        return ", ".join(sorted(match.groups())) + "."
    if match := re.fullmatch(rf"What colour is the {_ANIMAL}\?", sentence):
        return _recall(world.colour, match[1], "The {} is {}.")
    if match := re.fullmatch(rf"What does {_NAME} like\?", sentence):
        return _recall(world.food, match[1], "{} likes {}.")
    if match := re.fullmatch(rf"What does {_NAME} play\?", sentence):
        return _recall(world.game, match[1], "{} plays {}.")
    if match := re.fullmatch(rf"How many {_GOODS} do they have\?", sentence):
        owners = world.amount.get(match[1])
        return f"They have {sum(owners.values())} {match[1]}." if owners else UNKNOWN
    raise GrammarError(f"not a sentence of the grammar: {sentence!r}")


def expected_answer(prompt: list[Message]) -> str:
    """The one right answer to a prompt (messages up to and with the last user message)."""
    world, answer = World(), NOTED
    for message in prompt:
        if message["role"] != "user":
            continue
        sentences = [s.strip() for s in _SENTENCE.findall(message["content"])]
        if " ".join(sentences) != message["content"]:
            raise GrammarError(f"not a message of the grammar: {message['content']!r}")
        answer = NOTED
        for sentence in sentences:
            if not _state(world, sentence):
                answer = _answer(world, sentence)
    return answer


def accepts(prompt: list[Message], answer: str) -> bool:
    """Whether `answer` (visible text, end marker removed) is right for `prompt`."""
    return answer == expected_answer(prompt)


# ------------------------------------------------------------------------------------------- command line


def judge(prompts: list[dict], answers: list[dict]) -> tuple[int, list[str]]:
    """How many answer records (`text`, as `slm run --batch` writes them) are right, and a line for each
    other."""
    by_id = {record["id"]: record for record in answers}
    accepted, complaints = 0, []
    for prompt in prompts:
        answer = by_id.get(prompt["id"], {})
        if accepts(prompt["messages"], answer.get("text", "")) and answer.get("stop_reason") == "eos":
            accepted += 1
        else:
            right = expected_answer(prompt["messages"])
            complaints.append(f"{prompt['id']}: {answer.get('text', answer)!r}, right is {right!r}")
    return accepted, complaints


def read_lines(path: str) -> list[dict]:
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _check(count: int) -> int:
    """Generator against checker, and the checker against answers that must be refused."""
    rng = random.Random("check")
    for _ in range(count):
        messages = dialogue(rng)
        for end, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            prompt, answer = messages[:end], message["content"]
            if not accepts(prompt, answer):
                print(f"disagree: {prompt} -> {answer!r}, parser says {expected_answer(prompt)!r}")
                return 1
            wrong = ["", answer + " ", answer[:-1], answer.lower(), "Ada is in the sea."]
            if answer != UNKNOWN:
                wrong.append(UNKNOWN)
            for refused in wrong:
                if refused != answer and accepts(prompt, refused):
                    print(f"accepted a wrong answer: {prompt} -> {refused!r}")
                    return 1
    print(f"ok: {count} dialogues, generator and parser agree, wrong answers refused")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="The question grammar of the demo model.")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="test the generator and the checker against each other")
    check.add_argument("--count", type=int, default=5000)
    show = commands.add_parser("heldout", help="print the held-out prompts as run --batch records")
    show.add_argument("--seed", type=int, default=1)
    show.add_argument("--count", type=int, default=50)
    score = commands.add_parser("judge", help="judge the answers of `slm run --batch` to held-out prompts")
    score.add_argument("prompts")
    score.add_argument("answers")
    score.add_argument("--need", type=int, default=45)
    args = parser.parse_args()
    if args.command == "check":
        return _check(args.count)
    if args.command == "judge":
        prompts = read_lines(args.prompts)
        accepted, complaints = judge(prompts, read_lines(args.answers))
        print("\n".join([*complaints, f"{accepted} of {len(prompts)} accepted, {args.need} needed"]))
        return 0 if accepted >= args.need else 1
    for index, messages in enumerate(heldout(args.seed, args.count)):
        record = {"id": f"heldout-{index:02d}", "messages": messages[:-1], "max_new_tokens": 24}
        print(json.dumps(record, ensure_ascii=True, separators=(", ", ": ")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
