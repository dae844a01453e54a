# SPDX-License-Identifier: MIT
"""Random templates, beside jinja2 with the settings of transformers' apply_chat_template.

They are put together from the pieces of fixtures/external/chat-templates. What jinja2 renders may be refused here by
name ("is not implemented"); limits of nesting, work and integers are ours (docs/security.md); and a filter that gives
items one by one computes them at once here, so a wrong one is an error although nobody asks for its items. So jinja2
is asked with such filters at once, and without its optimizer, which forgets errors in expressions of constants. A
variable that a scope sets has there, before that, the value from outside; jinja2 makes it undefined in loops, macros
and blocks of that scope.
"""

import functools
import json
import re

import common

FOLDER = common.FIXTURES / "external" / "chat-templates"
ALWAYS = ["~", "==", "!=", "and", "or"]  # whatever the operands are
FILTERS = [
    "string",
    "tojson",
    "default('z')",
    "default('z', true)",
    "upper",
    "trim",
    "list",
    "length",
    "join('-')",
    "first",
]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
TEXTS = ["", " ", "\n", "  \n", "a", "<", "\u00e9", " x ", "\n\n", "\t"]
MARKS = ["", "", "", "-", "+"]


class Pieces:
    """The expressions, filters, tests and statements of the templates in jinja.json."""

    def __init__(self, answers):
        self.expressions, self.bad, self.statements = [], [], []
        for answer in answers:
            found = re.fullmatch(r"\{\{ (((?!\{\{|\}\}).)*) \}\}", answer["template"], re.DOTALL)
            if found:
                (self.expressions if "text" in answer else self.bad).append(found[1])
            elif "text" in answer or len(answer["template"]) % 4 == 0:
                self.statements.append(answer["template"])
        joined = "\n".join(self.expressions + self.bad)
        self.filters = sorted(set(re.findall(r"\| ([a-z_]+(?:\([^()]*\))?)", joined)))
        self.tests = sorted(
            {"defined", "not none"} | set(re.findall(r" is ((?:not )?[a-z]+(?: \d+|\([^()]*\))?)", joined))
        )
        self.methods = sorted(set(re.findall(r"(\.[a-z_]+\([^()]*\)|\[[-\d:]+\]|\.[a-z]+)", joined)))
        self.short = [piece for piece in self.expressions if len(piece) < 12]
        self.iterable = [
            piece
            for piece in self.expressions
            if re.search(r"\| (list|sort|unique|batch\S* \| list)$|^[lmsd]$|^range", piece)
        ]

    def expression(self, numbers, depth=0):
        how = numbers.randrange(11 if depth < 2 else 4)
        if how < 3:
            return numbers.choice(self.bad if numbers.randrange(40) == 0 else self.short if how else self.expressions)
        one = self.expression(numbers, depth + 1)
        sign = numbers.choice(ALWAYS if numbers.randrange(3) else OPERATORS)
        if how == 3:
            return f"({one}) {sign} ({self.expression(numbers, depth + 1)})"
        if how <= 5:
            return f"({one}) | {numbers.choice(FILTERS if numbers.randrange(3) else self.filters)}"
        if how == 6:
            return f"({one}) is {numbers.choice(self.tests)}"
        if how == 7:
            return f"({one}){numbers.choice(self.methods)}"
        if how == 8:
            return f"({one}) if ({self.expression(numbers, depth + 1)}) else ({self.expression(numbers, depth + 1)})"
        if how == 9:
            return numbers.choice(("[{}, {}]", "({}, {})", "{{'k': {}, 2: {}}}")).format(
                one, self.expression(numbers, depth + 1)
            )
        return f"{one} {sign} {numbers.choice(self.short)}"

    def template(self, numbers, depth=0):
        made = ""
        for _ in range(numbers.choice((1, 1, 2, 3))):
            made += numbers.choice(TEXTS)
            begin, end = "{%" + numbers.choice(MARKS), numbers.choice(MARKS[:4]) + "%}"
            how = numbers.randrange(8 if depth else 9)  # no macro in a block: that is not implemented
            inner = self.template(numbers, depth + 1) if depth < 2 and how >= 4 else "x"
            if how < 2:
                made += (
                    "{{"
                    + numbers.choice(MARKS[:4])
                    + " "
                    + self.expression(numbers)
                    + " "
                    + numbers.choice(MARKS[:4])
                    + "}}"
                )
            elif how == 2:
                made += numbers.choice(self.statements)
            elif how == 3:
                made += f"{begin} set {numbers.choice(('a', 'b', 'l', 's'))} = {self.expression(numbers)} {end}"
            elif how <= 5:
                made += f"{begin} if {self.expression(numbers)} {end}{inner}{begin} else {end}y{begin} endif {end}"
            elif how == 6:
                given = numbers.choice(("", "", f" if {self.expression(numbers, 2)}"))
                shown = numbers.choice(("{{ x }}", "{{ loop.index }}", "{{ loop.last }}", "{{ a }}", ""))
                over = numbers.choice(self.iterable) if numbers.randrange(4) else self.expression(numbers)
                made += f"{begin} for x in {over}{given} {end}{inner}{shown}{begin} endfor {end}"
            elif how == 8:
                made += f"{begin} macro f(x, y=1) {end}{inner}{{{{ x }}}}{begin} endmacro {end}"
                made += f"{{{{ f({self.expression(numbers, 2)}) }}}}"
            else:
                made += f"{begin} with a = {self.expression(numbers)} {end}{inner}{{{{ a }}}}{begin} endwith {end}"
        return made


def at_once(make):
    """The filter, when it has computed all items."""

    @functools.wraps(make)
    def made(*arguments, **options):
        return iter(list(make(*arguments, **options)))

    return made


class Templates(common.Subject):
    name = "random templates"

    def __init__(self):
        from transformers.utils import chat_template_utils

        read = json.loads((FOLDER / "jinja.json").read_text(encoding="utf-8"))
        self.variables = read["variables"] | {"tools": None, "documents": None, "add_generation_prompt": False}
        self.pieces = Pieces(read["answers"])
        self.arguments = ["template", FOLDER / "jinja.json"]
        chat_template_utils.datetime = self.clock()
        environment = chat_template_utils._cached_compile_jinja_template("").environment
        environment.optimized = False
        for name in ("batch", "items", "map", "reject", "rejectattr", "select", "selectattr", "slice", "unique"):
            environment.filters[name] = at_once(environment.filters[name])
        self.environment = environment

    def clock(self):
        import datetime

        now = datetime.datetime(2025, 3, 9, 14, 5, 7)  # tests/chat/answers.h

        class Clock(datetime.datetime):
            @classmethod
            def now(cls, tz=None):
                return now

        return Clock

    def inputs(self, numbers):
        damage = [
            "{{",
            "}}",
            "{%",
            "%}",
            "-",
            "(",
            ")",
            "[",
            "]",
            "'",
            '"',
            "|",
            ".",
            ",",
            " ",
            "{#",
            "#}",
            "is",
            "not",
            "1",
            "s",
        ]
        while True:
            made = self.pieces.template(numbers)
            yield (common.damaged(made, damage, numbers) if numbers.randrange(4) == 0 else made).encode()

    def theirs(self, data):
        try:
            return self.environment.from_string(data.decode()).render(
                messages=[], **json.loads(json.dumps(self.variables))
            )
        except Exception as refused:  # noqa: BLE001
            return refused

    def outcome(self, data, accepted, ours):
        if not accepted and b"not implemented" in ours:
            return common.deliberate("not implemented")
        theirs = self.theirs(data)
        if isinstance(theirs, Exception) and not accepted:
            return common.BOTH_REFUSE
        if accepted and not isinstance(theirs, Exception) and theirs.encode() == ours:
            return common.AGREED
        if self.undefined_until_set(data):
            return common.deliberate("a variable that is set later")
        if not accepted and re.search(rb"expected an expression, found '(if|else|in|is|and|or|not)'", ours):
            return common.deliberate("a word of the language as a variable")
        if not accepted and ours.endswith(b"cannot be sliced"):  # what a template prints and the compiler can compute
            return common.deliberate("a slice of a constant that has none")
        if isinstance(theirs, Exception):
            return common.WRONG
        if re.search(r" at 0x[0-9a-f]+|<(class|function|bound|built-in|generator)", theirs):
            return common.deliberate("an object of Python is shown")
        return common.WRONG

    def undefined_until_set(self, data):
        """Whether a scope hides a variable before it sets it."""
        try:
            code = self.environment.compile(data.decode(), raw=True)
        except Exception:  # noqa: BLE001
            return False
        hidden = set(
            re.findall(r"l_\d+_(\w+) = ", "\n".join(re.findall(r"^ *((?:l_\d+_\w+ = )+)missing$", code, re.MULTILINE)))
        )
        return bool(hidden & set(self.variables))


def subjects():
    return [Templates()]
