"""The family profile answers for every key that the pinned source can write or read (CFG-01)."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import unittest

from transformers import GenerationConfig, LlamaConfig
from transformers.configuration_utils import PreTrainedConfig

PROFILE = os.path.join(os.path.dirname(__file__), "..", "..", "profiles", "families", "llama.json")


class ProfileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        with open(PROFILE, encoding="utf-8") as file:
            profile = json.load(file)
        cls.keys = {name: [entry["key"] for entry in profile[name]] for name in ("config", "generation_config")}

    def assert_listed(self, name: str, wanted: set[str]) -> None:
        self.assertEqual(sorted(wanted - set(self.keys[name])), [])

    def test_cfg01_no_key_is_listed_twice(self) -> None:
        for name, keys in self.keys.items():
            self.assertEqual(sorted(set(keys)), sorted(keys), name)

    def test_cfg01_every_key_that_the_configuration_class_writes(self) -> None:
        written = set(LlamaConfig().to_dict())
        self.assertGreater(len(written), 20)
        self.assert_listed("config", written)

    def test_cfg01_every_field_and_parameter_of_the_configuration_classes(self) -> None:
        for cls in (PreTrainedConfig, LlamaConfig):
            fields = {field.name for field in dataclasses.fields(cls) if field.init}
            parameters = set(inspect.signature(cls.__init__).parameters) - {"self", "kwargs"}
            self.assertGreater(len(fields | parameters), 9, cls)
            self.assert_listed("config", fields | parameters)

    def test_cfg01_every_key_of_the_generation_configuration(self) -> None:
        written = set(GenerationConfig().to_dict())
        self.assertGreater(len(written), 40)
        self.assert_listed("generation_config", written)


if __name__ == "__main__":
    unittest.main()
