# SPDX-License-Identifier: MIT
"""Documents against random schemas, beside the package jsonschema (draft 2020-12, formats not asserted).

Of each pair, two judgments are compared: that of the grammar which masks tokens, and that of
ref/grammar/schema_reader.h. On purpose (ref/grammar/json_schema.h) fewer documents are texts of the grammar than
satisfy the schema, so one that is not allowed is no difference; one that is allowed and does not satisfy it is.
Schemas that are refused are counted.
"""

import json

import common

PATTERNS = [
    "^a",
    "b$",
    "^[a-c]+$",
    "^(ab|c)*$",
    "[0-9]{2}",
    "^x?y{1,2}$",
    "^.{2}$",
    "a|b",
    "",
    "^[^a]*$",
    "\\\\",
    "^-?[0-9]+$",
]
NAMES = ["a", "b", "c", "key", "x y", "\u00e4", ""]
STRINGS = [
    "",
    "a",
    "b",
    "ab",
    "abc",
    "cab",
    "12",
    "x1",
    "y",
    "xyy",
    "\u00e4",
    "\U0001f600",
    '"',
    "\\",
    "\n",
    "-7",
    "abababab",
]
NUMBERS = [0, 1, -1, 2, 3, 5, 10, 12, 100, -7, 0.5, -0.5, 1.5, 2.25, 99.75, 1000000]
CONSTANTS = [None, True, False, 0, 1, -3, 1.5, "a", "ab", "", [], [1], ["a", None], {}, {"a": 1}, {"a": "b", "b": []}]


def schema(numbers, depth=0, inside=False):
    """A schema; most of what it says concerns the kind of its documents. References stand only `inside` of an array or
    an object of a document: the package follows one that leads back to itself in the same place without an end."""
    how = numbers.randrange(24)
    if how == 0:
        return numbers.choice((True, True, {}, False))
    if how == 1:
        return {"enum": numbers.sample(CONSTANTS, numbers.randrange(1, 5))}
    if how == 2:
        return {"const": numbers.choice(CONSTANTS)}
    if how == 3 and inside:
        return {"$ref": numbers.choice(("#/$defs/t", "#/$defs/u", "#"))}
    if how <= 7 and depth < 3:
        name = numbers.choice(("anyOf", "anyOf", "allOf", "oneOf"))
        parts = [schema(numbers, depth + 1, inside) for _ in range(numbers.randrange(1, 4))]
        made = {name: parts}
        return made if numbers.randrange(3) else made | of_kind(numbers, depth)
    if how == 8 and depth < 3:
        return of_kind(numbers, depth) | {"not": schema(numbers, depth + 1, inside)}
    if how == 9 and depth < 3:
        made = {"if": schema(numbers, depth + 1, inside), "then": schema(numbers, depth + 1, inside)}
        if numbers.randrange(2):
            made["else"] = schema(numbers, depth + 1, inside)
        return of_kind(numbers, depth) | made
    return of_kind(numbers, depth)


def of_kind(numbers, depth):
    kinds = ["string", "integer", "number", "boolean", "null"] + (["array", "object", "object"] if depth < 3 else [])
    kind = numbers.choice(kinds)
    made = {"type": kind if numbers.randrange(8) else sorted({kind, numbers.choice(kinds)})}
    some = lambda chance=3: numbers.randrange(chance) == 0  # noqa: E731
    if kind == "string":
        if some():
            made["minLength"] = numbers.randrange(4)
        if some():
            made["maxLength"] = numbers.randrange(6)
        if some():
            made["pattern"] = numbers.choice(PATTERNS)
    elif kind in ("integer", "number"):
        for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if some(4):
                made[name] = numbers.choice(NUMBERS)
        if some(5):
            made["multipleOf"] = numbers.choice((1, 2, 3, 5, 0.5, 10))
    elif kind == "array":
        if not some():
            made["items"] = schema(numbers, depth + 1, inside=True)
        if some(4):
            made["prefixItems"] = [schema(numbers, depth + 1, inside=True) for _ in range(numbers.randrange(1, 3))]
        if some():
            made["minItems"] = numbers.randrange(3)
        if some():
            made["maxItems"] = numbers.randrange(4)
        if some(8):
            made["uniqueItems"] = True
        if some(8):
            made["contains"] = schema(numbers, depth + 1, inside=True)
    elif kind == "object":
        names = numbers.sample(NAMES, numbers.randrange(4))
        if names or some():
            made["properties"] = {name: schema(numbers, depth + 1, inside=True) for name in names}
        if some():
            made["required"] = numbers.sample(NAMES, numbers.randrange(3))
        if not some():
            made["additionalProperties"] = False if numbers.randrange(2) else schema(numbers, depth + 1, inside=True)
        for name, count in (("minProperties", 3), ("maxProperties", 4)):
            if some(6):
                made[name] = numbers.randrange(count)
        if some(8):  # not by "", which the package takes for no pattern where it looks for additional properties
            pattern = numbers.choice([pattern for pattern in PATTERNS if pattern])
            made["patternProperties"] = {pattern: schema(numbers, depth + 1, inside=True)}
        if some(8):
            made["propertyNames"] = {"maxLength": numbers.randrange(1, 4)}
        if some(8):
            made["dependentRequired"] = {numbers.choice(NAMES): [numbers.choice(NAMES)]}
    return made


def document(of, root, numbers, depth=0):
    """A document that has a good chance to satisfy a schema."""
    if not isinstance(of, dict) or not of or depth > 6 or numbers.randrange(30) == 0:
        return numbers.choice(CONSTANTS + STRINGS + NUMBERS)
    if "enum" in of:
        return numbers.choice(of["enum"])
    if "const" in of:
        return of["const"]
    if "$ref" in of:
        return document(root if of["$ref"] == "#" else root["$defs"][of["$ref"][-1]], root, numbers, depth + 1)
    for name in ("anyOf", "oneOf", "allOf"):
        if name in of and (numbers.randrange(2) or "type" not in of):
            return document(numbers.choice(of[name]), root, numbers, depth + 1)
    if "then" in of and numbers.randrange(2):
        return document(of[numbers.choice(("if", "then"))], root, numbers, depth + 1)
    kind = of.get("type")
    kind = numbers.choice(kind) if isinstance(kind, list) else kind
    if kind == "string":
        return numbers.choice(STRINGS)
    if kind == "integer":
        return numbers.choice([n for n in NUMBERS if isinstance(n, int)])
    if kind == "number":
        return numbers.choice(NUMBERS)
    if kind == "array":
        first = of.get("prefixItems", [])
        least = of.get("minItems", 0)
        count = (
            numbers.randint(least, max(least, of.get("maxItems", 3))) if numbers.randrange(4) else numbers.randrange(4)
        )
        return [
            document(first[i] if i < len(first) else of.get("items", {}), root, numbers, depth + 1)
            for i in range(count)
        ]
    if kind == "object":
        required = of.get("required", [])
        named = [name for name in of.get("properties", {}) if name in required or numbers.randrange(3)]
        made = {name: document(of["properties"][name], root, numbers, depth + 1) for name in named}
        others = [name for name in required if name not in made and numbers.randrange(8)]
        others += [name for name in NAMES if numbers.randrange(12) == 0 and name not in made]
        return made | {name: document(of.get("additionalProperties", {}), root, numbers, depth + 1) for name in others}
    return numbers.choice((True, False)) if kind == "boolean" else None


class Pairs:
    name = "random schemas, eight documents of each"
    arguments = ["schema"]
    documents = 8

    def __init__(self):
        import jsonschema

        self.validator = jsonschema.Draft202012Validator

    def inputs(self, numbers):
        while True:
            root = schema(numbers)
            root = {"allOf": [root]} if isinstance(root, bool) else root
            root["$defs"] = {"t": schema(numbers, 1), "u": schema(numbers, 2)}
            texts = [json.dumps(document(root, root, numbers), ensure_ascii=False) for _ in range(self.documents)]
            yield json.dumps({"schema": root, "texts": texts}, ensure_ascii=False).encode()

    def theirs(self, data):
        pairs = json.loads(data.replace(b'$"', b'\\\\Z"'))  # Python's $ is before a line feed at the end, too
        validator = self.validator(pairs["schema"])
        return "".join("1" if validator.is_valid(json.loads(text)) else "0" for text in pairs["texts"])

    def outcomes(self, data, accepted, ours):
        """One of each document."""
        theirs = self.theirs(data)
        if not accepted:
            yield common.deliberate("the schema is refused")
            return
        for i, valid in enumerate(theirs):
            allowed, satisfied = chr(ours[2 * i]), chr(ours[2 * i + 1])
            if allowed == "1" and valid == "0":
                yield common.WRONG + ": the grammar allows it"
            elif satisfied not in ("-", valid):
                yield common.WRONG + f": satisfies says {satisfied}"
            elif valid == "1":
                yield (
                    common.AGREED + ", valid" if allowed == "1" else common.deliberate("valid, no text of the grammar")
                )
            else:
                yield common.AGREED + ", invalid"


def subjects():
    return [Pairs()]
