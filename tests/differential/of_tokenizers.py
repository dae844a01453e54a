# SPDX-License-Identifier: MIT
"""Tokens of texts, and the texts of tokens, beside `tokenizers` and, for tokenizer.model, sentencepiece.

On purpose ref/text/tokenizer.h refuses a text with a byte that the vocabulary lacks, where the packages drop it.
sentencepiece adds scores as floats, so of two divisions that are nearly as good it may take the worse one. It decodes
the unknown token to a text of its own, so texts of tokens are compared where there is none.
"""

import json
import math

import common

RANGES = [
    (0x20, 0x7F), (0x20, 0x7F), (0x0, 0x20), (0x80, 0x250), (0x300, 0x370), (0x370, 0x600), (0x600, 0x700),
    (0x900, 0xE00), (0x1100, 0x1200), (0x1E00, 0x2070), (0x2000, 0x2300), (0x2E80, 0x3100), (0x3040, 0x3100),
    (0x4E00, 0x9FB0), (0xAC00, 0xD7A4), (0xE000, 0xE010), (0xF900, 0xFB50), (0xFB50, 0x10000), (0x10000, 0x10400),
    (0x1D400, 0x1D800), (0x1F000, 0x1FB00), (0x20000, 0x20100), (0xE0000, 0xE0100),
]  # fmt: skip
PIECES = [
    " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\u200b", "\u200d", "\u2028", "\u2581", "'s",
    "'S", "'t", "'re", "'VE", "'ll", "'\u017f", "don't", "1", "12", "123", "1234", "3.14", "the", " the", "The", "THE",
    "model", " token", "isn't", "_", "()", "/*", "->", "...", "!", "?", "<", ">", "<|", "|>", "</", "<0x41>", "<0x0A>",
    "<unk>", "<s>", "</s>", "<pad>", "<mask>", "[INST]", "\u00e9", "e\u0301", "\u1e9b\u0323", "\ufb01", "\uff21",
    "\u0130", "\u01c5", "\u212b", "\u0661", "\u00bd", "\u2163", "\u4e16\u754c", "\uac00", "\u1100\u1161\u11a8",
    "\U0001f600", "\U0001f469\u200d\U0001f4bb", "\U0001f1eb\U0001f1f7", "\u0e01\u0e33", "\u0915\u094d\u0937", "\ufeff",
]  # fmt: skip


def character(numbers):
    begin, end = numbers.choice(RANGES)
    return chr(numbers.randrange(begin, end))


def text(numbers, special, words):
    made = []
    for _ in range(numbers.choice((0, 1, 2, 3, 5, 8, 13, 30))):
        how = numbers.randrange(6)
        if how <= 1:
            made.append(numbers.choice(PIECES))
        elif how == 2:
            made.append(character(numbers) * numbers.choice((1, 1, 2, 5)))
        elif how == 3:
            made.append("".join(character(numbers) for _ in range(numbers.randrange(1, 5))))
        elif how == 4 or not special:
            made.append(numbers.choice(words))
        else:
            made.append(numbers.choice(special))
    return "".join(made)


class HuggingFace(common.Subject):
    def __init__(self, file):
        import tokenizers

        self.name = file.parent.name
        self.arguments = ["tokens", file]
        self.tokenizer = tokenizers.Tokenizer.from_file(str(file))
        read = file.read_text(encoding="utf-8")
        self.special = [token["content"] for token in json.loads(read).get("added_tokens", [])]

    def inputs(self, numbers):
        words = [self.tokenizer.decode([token]) for token in range(self.tokenizer.get_vocab_size())]
        while True:
            yield text(numbers, self.special, words).encode()

    def theirs(self, data):
        tokens = self.tokenizer.encode(data.decode()).ids
        return tokens, self.tokenizer.decode(tokens)

    def outcome(self, data, accepted, ours):
        tokens, decoded = self.theirs(data)
        if not accepted:
            return common.deliberate("a byte that the vocabulary lacks") if b"the vocabulary" in ours else common.WRONG
        ids, _, again = ours.decode().partition("\n")
        if [int(token) for token in ids.split()] == tokens and again in (decoded, self.unknown(tokens, again)):
            return common.AGREED
        return common.WRONG

    def unknown(self, tokens, decoded):
        """The text of tokens that no comparison is possible of; None where there is one."""
        return None


class SentencePiece(HuggingFace):
    def __init__(self, file):
        import sentencepiece

        self.name = file.parent.name
        self.arguments = ["tokens-of-text", file]
        self.tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(file))
        self.special = []

    def inputs(self, numbers):
        words = [
            self.tokenizer.id_to_piece(token).replace("\u2581", " ") for token in range(self.tokenizer.get_piece_size())
        ]
        while True:
            yield text(numbers, self.special, words).encode()

    def theirs(self, data):
        tokens = self.tokenizer.encode(data.decode())
        return tokens, self.tokenizer.decode(tokens)

    def unknown(self, tokens, decoded):
        return decoded if self.tokenizer.unk_id() in tokens else None

    def outcome(self, data, accepted, ours):
        outcome = super().outcome(data, accepted, ours)
        if outcome == common.WRONG and accepted:
            theirs, our_own = (math.fsum(map(self.tokenizer.get_score, ids)) for ids in self.both(data, ours))
            if 0 <= our_own - theirs < 1e-4:  # the best of both, and no more than floats round
                return common.deliberate("sums of scores as floats")
        return outcome

    def both(self, data, ours):
        return self.theirs(data)[0], [int(token) for token in ours.decode().partition("\n")[0].split()]


def subjects():
    external = common.FIXTURES / "external"
    files = [HuggingFace(file) for file in sorted(external.glob("tokenizers*/*/tokenizer.json"))]
    return files + [SentencePiece(file) for file in sorted(external.glob("tokenizers*/*/tokenizer.model"))]
