"""Cases files: what is read and what is refused (docs/spec/cases.md)."""

from __future__ import annotations

import unittest

from slm_oracle import OracleError, cases


class CasesTest(unittest.TestCase):
    def test_the_three_inputs_and_their_defaults(self) -> None:
        text, ids, messages = cases.parse(
            b'{"id":"t","text":"h\xc3\xa9\\u0000"}\n{"id":"i","ids":[1,258],"max_new_tokens":3}\n'
            b'{"id":"m","messages":[{"role":"user","content":"\\u00e9"}]}\n')
        self.assertEqual((text.kind, text.data, text.add_special_tokens), ("utf8", b"h\xc3\xa9\x00", True))
        self.assertEqual((ids.data, ids.max_new_tokens, ids.stop_at_eos), (b"\x01\0\0\0\x02\x01\0\0", 3, True))
        self.assertEqual(messages.data, '[{"role":"user","content":"\u00e9"}]'.encode())
        self.assertTrue(messages.add_generation_prompt)
        named = cases.parse(b'{"id":7,"ids":[1]}\n{"id":-0,"ids":[1]}\n{"id":"a case/\xc3\xa9","ids":[1]}\n')
        self.assertEqual([case.id for case in named], ["7", "0", "a case/\u00e9"])

    def test_what_is_refused(self) -> None:
        for line in ('{"id":"a"}', '{"id":"a","text":"x","ids":[1]}', '{"id":"a","text":"x","seed":1}',
                     '{"id":"a","text":"x","text":"y"}', '{"id":"a\\u0085b","text":"x"}', '{"id":"","text":"x"}', '{"id":1.0,"text":"x"}', '{"id":true,"text":"x"}', '{"id":"a\\nb","text":"x"}', '{"id":9223372036854775808,"text":"x"}', '{"id":"a","ids":[]}',
                     '{"id":"a","ids":[-1]}', '{"id":"a","ids":[true]}', '{"id":"a","ids":[1.0]}',
                     '{"id":"a","ids":[4294967296]}', '{"id":"a","text":"\\ud800"}', '{"id":"a","messages":[1]}',
                     '{"id":"a","text":"x","add_generation_prompt":true}', '{"id":"a","text":"x","max_new_tokens":-1}',
                     '{"id":"a","text":"x","max_new_tokens":true}', '{"id":"a","text":"x","case_class":"other"}',
                     '{"id":"a","text":"x","stop":["y"]}', '{"id":"a","text":"x","tools":[{}]}',
                     '{"id":"a","text":"x","sampling":{"seed":1}}', '{"id":"a","text":"x","special_tokens_as_text":true}',
                     '[]', '', '{"id":"a","text":"x"', '{"id":"a","ids":[NaN]}'):
            with self.subTest(line), self.assertRaises(OracleError):
                cases.parse(line.encode() + b"\n")
        for data in (b"", b'{"id":"a","text":"x"}\n{"id":"a","text":"y"}\n', b"\xff\n",
                     b'{"id":"a","text":"x"}\n\n'):
            with self.subTest(data), self.assertRaises(OracleError):
                cases.parse(data)

    def test_as_people_write_them(self) -> None:
        first, last = cases.parse(b'{"id":"a","ids":[1],"stop":[],"stop_ids":[],"sampling":{},"logits":"last"}\n'
                                  b'{"id":"b","messages":[{}],"tools":null,"documents":[],"special_tokens_as_text":false}')
        self.assertEqual((first.id, last.id, last.kind), ("a", "b", "messages"))


if __name__ == "__main__":
    unittest.main()
