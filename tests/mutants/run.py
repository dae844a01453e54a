#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutation testing: makes small faults in our own sources and counts those that no test notices.

    tests/mutants/run.py BUILD --tests acceptance_test,decoding_test [--count N] [--seed S] [--jobs J] FILE ...

BUILD is a folder in which these test programs are built; it and the sources stay as they are. All mutants of a file are
compiled at once, each behind a condition (runtime.h), and linked before the libraries, so that these objects are taken
and not theirs. A first run finds out which mutants each test reaches. Then each mutant is turned on, and the fast tests
that reach it run until one fails, the quick ones first; the next program runs only when none did. A mutant is killed
when a test fails, when the program crashes, and when it takes ten times the processor time.

Mutated are comparisons, arithmetic, logic, constants, minimum and maximum, conditions, values that are returned, and
statements that are left out; not what REQUIRE says, as nothing that happens reaches it, and not what the compiler
computes. Mutants that do not compile are left out. The choice of N depends on the seed and the files alone. A survivor
that tests/mutants/explained.txt explains counts as explained; another one makes the exit status 1.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).parent
FAST = "-*Slow*.*:*Sweep*.*"

LEXEME = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*)
  | (?P<text>(?:u8|[uUL])?R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
  | (?P<number>0[xX][0-9a-fA-F.']+(?:p[+-]?\d+)?[uUlLfF]*|(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[uUlLfF]*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><=>|<<=|>>=|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s])
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

# With a space on both sides: that is how clang-format lays out operators, and not brackets of templates.
SIGNS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "/", "/": "*",
         "%": "/", "&&": "||", "||": "&&", "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
ASSIGNMENTS = {"+=": "-=", "-=": "+=", "*=": "/="}
STRENGTH = {sign: strength for strength, signs in enumerate(
    ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<=>", "<< >>", "+ -", "* / %"), 1) for sign in signs.split()}
WORDS = {"min": "max", "max": "min", "lower_bound": "upper_bound", "upper_bound": "lower_bound", "any_of": "all_of",
         "all_of": "any_of", "floor": "ceil", "ceil": "floor"}
# Statements that begin with these are no expressions.
NO_EXPRESSION = {"return", "if", "for", "while", "do", "else", "switch", "case", "default", "using", "const", "constexpr",
                 "auto", "static", "struct", "class", "enum", "template", "namespace", "static_assert", "public",
                 "private", "try", "catch", "throw", "friend", "extern", "inline", "typedef", "REQUIRE"}
DECLARATION = re.compile(r"[\w:]+(<.*>)?[&*]*\s+[&*]*\w", re.DOTALL)

Token = collections.namedtuple("Token", "kind text start end")


class Mutant:
    """A part of a file, an expression or statement, and what it becomes."""

    def __init__(self, file, kind, start, end, line, text, change):
        self.file, self.kind, self.start, self.end, self.line, self.text = file, kind, start, end, line, text
        self.change = change  # the line as it is => as it is with the mutant
        self.outcome = None


class File:
    def __init__(self, name):
        self.name = name
        self.source = (SOURCE / name).read_text()
        self.tokens = [Token(m.lastgroup, m.group(), m.start(), m.end()) for m in LEXEME.finditer(self.source)
                       if m.lastgroup != "skip"]
        self.closing, self.inside, open_ones = {}, [], []  # the bracket that closes one; the one that a token is in
        for i, token in enumerate(self.tokens):
            if token.text in (")", "]", "}") and open_ones:
                self.closing[open_ones.pop()] = i
            self.inside.append(open_ones[-1] if open_ones else None)
            if token.text in ("(", "[", "{"):
                open_ones.append(i)
        self.opening = {c: o for o, c in self.closing.items()}
        self.mutants = []
        self.find()

    def spaced(self, i):
        token = self.tokens[i]
        return self.source[token.start - 1].isspace() and self.source[token.end:token.end + 1].isspace()

    def not_computed(self):
        """What REQUIRE and static_assert say, and what the compiler computes."""
        tokens = set()
        for i, token in enumerate(self.tokens):
            if token.text in ("REQUIRE", "static_assert") and i + 1 in self.closing:
                tokens.update(range(i, self.closing[i + 1] + 1))
            if token.text in ("constexpr", "consteval", "enum", "case", "template"):
                end = i
                while end < len(self.tokens) and self.tokens[end].text not in (";", "{", ":"):
                    end = self.closing.get(end, end) + 1
                if token.text != "template" and end < len(self.tokens) and self.tokens[end].text == "{":
                    variable = self.tokens[end + 1:] and any(t.text == "=" for t in self.tokens[i:end])
                    before = self.tokens[end - 1]
                    if variable or token.text == "enum" or before.kind == "word" and before.text not in ("noexcept", "const"):
                        end = self.closing.get(end, end)
                tokens.update(range(i, min(end, len(self.tokens))))
        return tokens

    def add(self, kind, first, last, change_from, change_to, new):
        """A mutant of the tokens first to last, of which the part from change_from to change_to becomes new."""
        start, end = self.tokens[first].start, self.tokens[last].end
        if "//" in self.source[start:end] or "/*" in self.source[start:end] or "#" in self.source[start:end]:
            return
        if kind == "return":
            text = ""
        elif kind == "statement" and new == "":
            text = ""
        else:
            text = " ".join((self.source[start:change_from] + new + self.source[change_to:end]).split())
        line_start = self.source.rfind("\n", 0, change_from) + 1
        line_end = self.source.find("\n", change_to)
        change = " => ".join(" ".join(part.split()) for part in (
            self.source[line_start:line_end], self.source[line_start:change_from] + new + self.source[change_to:line_end]))
        line = self.source.count("\n", 0, change_from) + 1
        self.mutants.append(Mutant(self.name, kind, start, end, line, text, change))

    def left_end(self, i, strength):
        """The first token of what is left of the operator i."""
        at = i - 1
        while at >= 0:
            text = self.tokens[at].text
            if at in self.opening:
                at = self.opening[at] - 1
                continue
            if text in ("(", "[", "{", ",", ";", "?", ":", "return", "throw", "else", "case", "=", "!", "->"):
                if text not in ("!", "->"):
                    break
            if self.spaced(at) and (text in ASSIGNMENTS or STRENGTH.get(text, 99) < strength or text.endswith("=") and
                                    text not in STRENGTH):
                break
            at -= 1
        return at + 1

    def right_end(self, i, strength):
        at = i + 1
        while at < len(self.tokens):
            text = self.tokens[at].text
            if at in self.closing:
                at = self.closing[at] + 1
                continue
            if text in (")", "]", "}", ",", ";", "?", ":") or (self.spaced(at) and STRENGTH.get(text, 99) <= strength):
                break
            at += 1
        return at - 1

    def find(self):
        tokens, skipped = self.tokens, self.not_computed()
        for i, token in enumerate(tokens):
            if i in skipped:
                continue
            following = tokens[i + 1].text if i + 1 < len(tokens) else ""
            before = tokens[i - 1].text if i else ";"
            if token.text in SIGNS and token.kind == "sign" and self.spaced(i):
                strength = STRENGTH[token.text]
                self.add("expression", self.left_end(i, strength), self.right_end(i, strength), token.start, token.end,
                         SIGNS[token.text])
            elif token.text in ASSIGNMENTS and self.spaced(i):
                self.add("expression", self.left_end(i, 0), self.right_end(i, 0), token.start, token.end,
                         ASSIGNMENTS[token.text])
            elif token.text == "!" and not self.source[token.end].isspace():
                self.add("expression", i, self.right_end(i, 98), token.start, token.end, "")
            elif token.text in WORDS and following in ("(", "<"):
                last = i + 1
                while last < len(tokens) and tokens[last].text != "(":
                    last += 1
                first = i
                while tokens[first - 1].text in ("::", ".", "->") and (tokens[first - 2].kind == "word" or first - 2 in self.opening):
                    first -= 2
                    if first in self.opening:
                        first = None
                        break
                if first is not None and last in self.closing:
                    self.add("expression", first, self.closing[last], token.start, token.end, WORDS[token.text])
            elif token.text in ("true", "false"):
                self.add("expression", i, i, token.start, token.end, "false" if token.text == "true" else "true")
            elif token.kind == "number" and self.source[token.end] != ">":  # not what a type has
                for by in (1, -1):
                    if (new := next_number(token.text, by)) is not None:
                        self.add("number", i, i, token.start, token.end, new)
            elif token.text in ("if", "while") and i + 1 in self.closing:
                last = self.closing[i + 1] - 1
                first = next((j + 1 for j in range(last, i + 1, -1) if tokens[j].text == ";" and self.inside[j] == i + 1), i + 2)
                signs = [t.text for t in tokens[first:last + 1]]
                alone = "&&" not in signs and "||" not in signs
                if "=" not in signs and not (alone and {"==", "!=", "!"} & set(signs)):  # those have theirs already
                    start, end = tokens[first].start, tokens[last].end
                    self.add("expression", first, last, start, end, f"!({self.source[start:end]})")
            block = self.inside[i] is None or tokens[self.inside[i]].text == "{"
            if not block:
                continue
            if token.text == "return" and following not in (";", "{", "false", "nullptr", "0"):
                end = self.right_end(i, 0) + 1
                while end < len(tokens) and tokens[end].text in (",", "?", ":"):
                    end = self.right_end(end, 0) + 1
                if end < len(tokens) and tokens[end].text == ";":
                    self.add("return", i, end, tokens[i + 1].start, tokens[end].start, "{}")
            if before in (";", "{", "}", ")", "else") and token.kind == "word" and token.text not in NO_EXPRESSION:
                end = i
                while end < len(tokens) and tokens[end].text not in (";", "}", ")"):
                    end = self.closing.get(end, end) + 1
                if end < len(tokens) and tokens[end].text == ";" and (self.inside[i] is not None) and (
                        not DECLARATION.match(self.source[token.start:tokens[end].start])):
                    self.add("statement", i, end, token.start, tokens[end].end, "")

    def with_mutants(self, mutants):
        """The source with these mutants, each behind its condition; lines stay where they are."""
        groups = collections.defaultdict(list)
        for mutant in mutants:
            groups[mutant.start, mutant.end].append(mutant)
        order = sorted(groups, key=lambda place: (place[0], -place[1]))

        def render(start, end, places):
            text, at = "", start
            while places:
                (first, last), *rest = places
                inner = [place for place in rest if place[0] < last]
                places = [place for place in rest if place[0] >= last]
                text += self.source[at:first] + wrap(groups[first, last], render(first, last, inner))
                at = last
            return text + self.source[at:end]

        def wrap(group, text):
            for mutant in group:
                condition = f"::draftproof::mutants::on({mutant.id})"
                if mutant.kind == "statement":
                    text = f"{{ if (!{condition}) {{ {text} }} }}"
                elif mutant.kind == "return":
                    text = f"{{ if ({condition}) return {{}}; {text} }}"
                else:
                    text = f"({condition} ? ({mutant.text}) : ({text}))"
            return text

        # Those that cross another one are left out.
        kept, ends = [], []
        for place in order:
            while ends and ends[-1] <= place[0]:
                ends.pop()
            if ends and place[1] > ends[-1]:
                for mutant in groups[place]:
                    mutant.outcome = "not compiling"
                continue
            ends.append(place[1])
            kept.append(place)
        return render(0, len(self.source), kept)


def next_number(text, by):
    plain = text.replace("'", "").rstrip("uUlLfF")
    suffix = text[len(text.rstrip("uUlLfF")):]
    try:
        value = float(plain) if "." in plain or "e" in plain and "x" not in plain else int(plain, 0)
    except ValueError:
        return None  # a float in hexadecimal
    return None if isinstance(value, int) and value + by < 0 else str(value + by) + suffix


def drop_faulty(file, copy, said):
    """Leaves out mutants where the compiler found errors; returns whether there were any."""
    lines = {int(line) for line in
             re.findall(rf"^{re.escape(str(copy))}:(\d+):\d+: (?:error|  required)", said, re.MULTILINE)}
    dropped = False
    for kinds in (("return", "number"), ("return", "number", "expression", "statement")):
        for mutant in file.mutants:
            first, last = (file.source.count("\n", 0, at) + 1 for at in (mutant.start, mutant.end))
            if mutant.id and not mutant.outcome and mutant.kind in kinds and lines & set(range(first, last + 1)):
                mutant.outcome, dropped = "not compiling", True
        if dropped:
            return True
    return False


class Build:
    """Compiles and links as the build folder says."""

    def __init__(self, folder, work):
        self.folder, self.work = folder, work
        self.commands = {pathlib.Path(row["file"]).resolve(): row
                         for row in json.loads((folder / "compile_commands.json").read_text())}

    def home(self, file):
        """What the build compiles to compile a file: itself, or a file that includes several."""
        path = (SOURCE / file).resolve()
        if path in self.commands:
            return path
        for unity in self.commands:
            if unity.name.startswith("unity_") and f'"{path}"' in unity.read_text():
                return unity
        sys.exit(f"{file}: {self.folder} does not compile it")

    def compile(self, row, source, *options):
        """Returns what the compiler said, or None when it compiled."""
        words = shlex.split(row["command"])
        words = words[1:] if words[0].endswith("ccache") else words
        left_out = ("-o", "-c", "-include")
        words = [w for i, w in enumerate(words) if w not in (*left_out, "-Werror", "-Winvalid-pch") and
                 words[i - 1] not in left_out]
        done = subprocess.run([*words, "-w", "-O1", "-include", HERE / "runtime.h", *options, "-c", source],
                              cwd=row["directory"], capture_output=True, text=True)
        return None if done.returncode == 0 else done.stderr

    def objects(self, files, pool):
        """The objects of what the build compiles, with the mutants of these files."""
        units = collections.defaultdict(list)
        for file in files:
            units[self.home(file.name)].append(file)
        outputs = [self.work / f"unit_{number}.o" for number in range(len(units))] + [self.work / "runtime.o"]
        tasks = [pool.submit(self.compile_mutants, unit, some, output)
                 for (unit, some), output in zip(units.items(), outputs)]
        row = self.commands[next(iter(units))]
        tasks.append(pool.submit(self.compile, row, HERE / "runtime.cpp", "-o", outputs[-1]))
        for task in tasks:
            if said := task.result():
                sys.exit(said)
        return outputs

    def compile_mutants(self, unit, files, output):
        """Leaves out what does not compile: of a line with an error first what is likely to be it, then all."""
        row, whole = self.commands[unit], unit.read_text()
        copies = {file: output.with_name(f"{output.stem}_{number}.cpp") for number, file in enumerate(files)}
        source = next(iter(copies.values()))
        if unit.name.startswith("unity_"):
            source = output.with_suffix(".cpp")
            for file, copy in copies.items():
                whole = whole.replace(f'"{(SOURCE / file.name).resolve()}"', f'"{copy}"')
            source.write_text(whole)
        for _ in range(12):
            for file, copy in copies.items():
                copy.write_text(file.with_mutants([m for m in file.mutants if m.id and not m.outcome]))
            said = self.compile(row, source, "-fsyntax-only")
            if said is None:
                return self.compile(row, source, "-o", output)
            if not any([drop_faulty(file, copy, said) for file, copy in copies.items()]):
                return said
        return said

    def link(self, test, objects):
        said = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", "-s", test], capture_output=True, text=True,
                              check=True).stdout
        command = [line for line in said.splitlines() if f" -o {test} " in line][-1]
        words = shlex.split(command.removeprefix(": && ").removesuffix(" && :"))
        place = words.index("-o")
        words[place + 1:place + 2] = [self.work / test, *objects]
        subprocess.run(words, cwd=self.folder, check=True)
        return self.work / test


def run(program, test_filter, seconds, **environment):
    """Returns the first test that failed, None when all passed."""
    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "RC_PARAMS": "seed=1", **environment}
    try:
        done = subprocess.run([program, "--gtest_fail_fast", "--gtest_filter=" + test_filter], text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=program.parent,
                              preexec_fn=limits, timeout=60 + 30 * seconds)
    except subprocess.TimeoutExpired:
        return "time limit"
    if done.returncode == 0:
        return None
    failed = re.search(r"^\[  FAILED  \] ([\w./]+)", done.stdout, re.MULTILINE)
    started = re.findall(r"^\[ RUN      \] ([\w./]+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else started[-1] if started else "end"


class Program:
    """A test program: which mutants each test reaches, and what it takes."""

    def __init__(self, path):
        self.path, self.seconds, self.reaching = path, {}, collections.defaultdict(list)
        reached = path.with_suffix(".reached")
        failed = run(path, FAST, 3600, MUTANTS_REACHED=str(reached))
        if failed:
            sys.exit(f"{path.name} fails without a mutant: {failed}")
        for line in reached.read_text().splitlines():
            name, seconds, *ids = line.split()
            if name != "*":
                self.seconds[name] = float(seconds)
            for mutant in ids:
                self.reaching[int(mutant)].append(name)
        self.killers = collections.defaultdict(list)  # of other mutants of the file

    def killer(self, mutant):
        """The test that kills a mutant, or None."""
        tests = self.reaching[mutant.id]
        if not tests:
            return None
        tests = sorted(self.seconds if "*" in tests else tests, key=self.seconds.get)
        first = [test for test in self.killers[mutant.file] if test in tests]
        left, quick = sum(map(self.seconds.get, tests)) / 10, []
        for test in tests:
            left -= self.seconds[test]
            if test not in first and left >= 0:
                quick.append(test)
        for some in first, quick, [test for test in tests if test not in first and test not in quick]:
            if some and (failed := run(self.path, ":".join(some), 10 * sum(map(self.seconds.get, some)) + 2,
                                       MUTANT=str(mutant.id))):
                if failed in self.seconds and failed not in first:
                    self.killers[mutant.file].append(failed)
                return failed
        return None


def outcome_of(mutant, programs):
    if mutant.outcome:
        return mutant.outcome
    for program in programs:
        if failed := program.killer(mutant):
            return "killed by " + failed
    return "survived" if any(program.reaching[mutant.id] for program in programs) else "not reached"


def explained():
    """The survivors that were looked at."""
    return {line.strip() for line in (HERE / "explained.txt").read_text().splitlines() if line.startswith("  ")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--tests", required=True)
    parser.add_argument("--count", type=int, default=0, help="0: every mutant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="says what killed each one")
    arguments = parser.parse_args()

    files = [File(name) for name in sorted(arguments.files)]
    mutants = [mutant for file in files for mutant in file.mutants]
    if arguments.count and arguments.count < len(mutants):
        chosen = random.Random(arguments.seed).sample(range(len(mutants)), arguments.count)
        mutants = [mutants[i] for i in sorted(chosen)]
    for file in files:
        for mutant in file.mutants:
            mutant.id = 0
    for number, mutant in enumerate(mutants, 1):
        mutant.id = number

    known = explained()
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        build = Build(arguments.build.resolve(), pathlib.Path(work))
        objects = build.objects(files, pool)
        programs = [Program(build.link(test, objects)) for test in arguments.tests.split(",")]
        table, unexplained = collections.defaultdict(collections.Counter), 0
        for mutant, outcome in zip(mutants, pool.map(lambda mutant: outcome_of(mutant, programs), mutants)):
            kind = "killed" if outcome.startswith("killed") else outcome
            if kind in ("survived", "not reached"):
                kind = "explained" if f"{mutant.file}: {mutant.change}".strip() in known else kind
                unexplained += kind != "explained"
            table[mutant.file][kind] += 1
            if arguments.verbose or kind in ("survived", "not reached"):
                print(f"{outcome}: {mutant.file}:{mutant.line}: {mutant.change}", flush=True)

    columns = ("killed", "not compiling", "explained", "survived", "not reached")
    print(f"\n{'file':44} {'mutants':>8}" + "".join(f"{column:>14}" for column in columns))
    table["all"] = sum((table[file] for file in list(table)), collections.Counter())
    for file, row in table.items():
        print(f"{file:44} {sum(row.values()):8}" + "".join(f"{row[column]:14}" for column in columns))
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    main()
