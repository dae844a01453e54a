# SPDX-License-Identifier: MIT
"""draftproof.TraceWriter: it writes what check_trace reads, refuses what it would not, and knows the page's fields."""

import json
import math
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy as np

import draftproof
from draftproof import TraceWriter

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / "fixtures/models/tale-target"
PROMPT = [1080, 1081, 259, 541, 378, 567]
TOTAL = 2**52


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "run.jsonl"

    def writer(self, vocabulary=4, rule="rejection", **fields):
        return TraceWriter(self.path, vocabulary=vocabulary, rule=rule, engine="tests", **fields)

    def lines(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def expect(self, words, call, *arguments, **options):
        with self.assertRaises(draftproof.Error) as caught:
            call(*arguments, **options)
        self.assertIn(words, str(caught.exception))


def documented():
    """Returns the fields of each table of the page."""
    text = (ROOT / "docs/spectrace.md").read_text()
    found = {}
    for heading, name in (
        ("### header", "header"),
        ("### sequence", "sequence"),
        ("### round", "round"),
        ("### Adjustments", "sequence"),
        ("### Turns", "sequence"),
        ("### Trees", "round"),
        ("### context_shift", "context_shift"),
        ("### end", "end"),
    ):
        section = re.split(r"^##", text.split("\n" + heading + "\n", 1)[1], flags=re.MULTILINE)[0]
        table = section.split("| field |", 1)[1].split("\n\n", 1)[0]
        cells = [row.split(" | ")[0] for row in table.splitlines()[2:] if not row.startswith("| fields of")]
        found.setdefault(name, set()).update(re.findall(r"`(\w+)`", " ".join(cells)))
    return found


class Schema(Case):
    def test_the_fields_are_those_of_the_page(self):
        with self.writer() as trace:
            fields = trace.fields()
        page = documented()
        self.assertEqual(set(page), set(fields))
        for name, known in fields.items():
            self.assertEqual(set(known), page[name] | ({"sequence"} if name == "sequence" else set()), name)
            self.assertEqual(len(known), len(set(known)))

    def test_an_unknown_field_is_refused_where_it_is_written(self):
        self.expect("the header: there is no field vocab", self.writer, vocab=4)
        with self.writer() as trace:
            self.expect("there is no field tempreature", trace.sequence, prompt=[1], temperature=1, tempreature=1)
            trace.sequence(prompt=[1], temperature=1, x_note="mine")
            self.expect("round 0 of sequence 0: there is no field draft", trace.round, emitted=[0], draft=[1])
            trace.round(emitted=[0], x_mine={"any": [1, 2]})
            self.expect("the end of sequence 0: there is no field count", trace.end, "length", count=1)
            trace.end("length")
        self.assertEqual(self.lines()[2]["x_mine"], {"any": [1, 2]})

    def test_a_wrong_type_is_refused_with_its_place(self):
        self.expect("field vocabulary is 'many'; it must be an integer", self.writer, vocabulary="many")
        self.expect("field rule is 'luck'", self.writer, rule="luck")
        self.expect("field total_weight is 0.5", self.writer, total_weight=0.5)
        self.expect("field dtype is 'f8'", self.writer, dtype="f8")
        self.expect("rows_file is chosen", self.writer, rows_file="x.h5")
        self.expect("cannot be written", TraceWriter, self.folder / "no" / "folder", vocabulary=4)
        with self.writer() as trace:
            for words, fields in (
                ("field prompt is [1, 4]; it at place 1 is 4", {"prompt": [1, 4]}),
                ("field prompt is []", {"prompt": []}),
                ("field prompt is 'text'", {"prompt": "text"}),
                ("field temperature is nan", {"temperature": math.nan}),
                ("field temperature is True", {"temperature": True}),
                ("field top_k is 1.5", {"top_k": 1.5}),
                ("field stop_token_emitted is 0", {"stop_token_emitted": 0}),
                ("field verification is 'all'", {"verification": "all"}),
                ("field logit_bias", {"logit_bias": {9: 1.0}}),
                ("needs the field grammar", {"constrained_prompt": 1}),
                ("field json_schema", {"json_schema": {1, 2}}),
                ("field rule is 'lossy:'", {"rule": "lossy:"}),
            ):
                self.expect(words, trace.sequence, **{"prompt": [1], "temperature": 1, **fields})
            trace.sequence(prompt=[1], temperature=1)
            good = {"emitted": [0, 1], "draft_tokens": [0], "accepted": 1, "next_from": "bonus"}
            for words, fields in (
                ("field accepted is 2; it must be at most 1", {"accepted": 2}),
                ("field next_from is None; it must be given", {"next_from": None}),
                ("field next_from is 'luck'", {"next_from": "luck"}),
                ("field emitted", {"emitted": [0, 1, 2]}),
                ("field q_draft is ['0x0p+0', '0x0p+0']; it must have 1 elements", {"q_draft": [0, 0]}),
                ("at place 0 is 'x'", {"p_draft": ["x"]}),
                ("field width is 3", {"width": 3}),
                ("field next is", {"next": {"token": 1, "bound": 1, "before": 0, "weight": 1}}),
                ("field p_before", {"p_before": [1]}),
                ("field position is 0", {"position": 0}),
                ("field round is 3", {"round": 3}),
                ("field p_digests", {"p_digests": ["A" * 32, "a" * 32]}),
                ("weight below 0", {"q_rows": [{0: 1.5, 1: -0.5}]}),
                ("add up to 1", {"q_rows": [{0: 0.5, 1: 0.25}]}),
                ("give a weight for each of the 4 tokens", {"q_rows": [[0.5, 0.5]]}),
                ("needs the field draft_asked", {"verify_seconds": 1.0, "draft_seconds": 1.0}),
            ):
                self.expect(words, trace.round, **{**good, **fields})
            self.expect("sequence 7 is not open", trace.round, emitted=[0], sequence=7)
            self.expect("needs the field draft_tokens", trace.round, emitted=[0], accepted=0)
            self.expect("field reason is 'done'", trace.end, "done")
            self.expect("sha256", trace.end, "length", sha256="0" * 64)
            trace.round(**good)
            trace.end("length")
        self.assertEqual(len(self.lines()), 4, "what was refused is not written")

    def test_what_no_right_engine_states_is_written_for_the_check_to_find(self):
        with self.writer() as trace:
            trace.sequence(prompt=[1], temperature=1, max_new_tokens=2)
            trace.round(
                emitted=[7, 1],
                draft_tokens=[7],
                accepted=1,
                next_from="bonus",
                p_draft=[math.nan],
                q_draft=[1.5],
                accept_u=[1],
            )
            trace.end("length")
        report = draftproof.check_trace(self.path)
        self.assertEqual(report.verdict, "BUG_PROVEN")
        self.assertLessEqual({"token", "number"}, {finding.check for finding in report.findings})


class Writing(Case):
    def test_the_first_example_of_the_page(self):
        example = [json.loads(line) for line in (ROOT / "docs/examples/tokens.jsonl").read_text().splitlines()]
        with self.writer(2048, "greedy") as trace:
            trace.sequence(prompt=PROMPT, temperature=0, stop_tokens=[2044, 2046], max_new_tokens=16)
            for round_ in example[1:-1]:
                trace.round(emitted=np.array(round_["emitted"]))
            trace.end("length")
        self.assertEqual([line.get("position") for line in self.lines()[2:-1]], [r["position"] for r in example[1:-1]])
        self.assertEqual(self.lines()[-1]["emitted_count"], 16)
        report = draftproof.check_trace(self.path, target=TARGET)
        self.assertEqual(report.verdict, "PASS_STAT")

    def rounds(self, trace, as_row, as_number=float):
        """Writes the rounds of the page's second example, with rows."""
        rows = [[0.375, 0.25, 0.25, 0.125], [0.25, 0.5, 0.125, 0.125], [0.25, 0.25, 0.25, 0.25]]
        trace.sequence(prompt=[1, 2], temperature=1.0, max_new_tokens=5)
        trace.round(
            emitted=[0, 1, 3],
            draft_tokens=[0, 1],
            accepted=2,
            next_from="bonus",
            width=3,
            q_draft=[as_number(0.5), as_number(0.25)],
            p_draft=[as_number(0.375), as_number(0.5)],
            accept_u=[as_number(0.375), as_number(0.125)],
            p_rows=[as_row(row) for row in rows],
            q_rows=[as_row([0.5, 0.5, 0, 0]), as_row([0.75, 0.25, 0, 0])],
        )
        trace.round(
            emitted=[1],
            draft_tokens=[2],
            accepted=0,
            next_from="residual",
            q_draft=[as_number(0.5)],
            p_draft=[as_number(0.25)],
            accept_u=[as_number(0.75)],
            p_rows=[as_row([0.25, 0.25, 0.25, 0.25])],
            q_rows=[as_row([0.5, 0, 0.5, 0])],
        )
        trace.round(emitted=[0], draft_tokens=[], accepted=0, next_from="bonus", p_rows=[as_row([1, 0, 0, 0])])
        trace.end("length")

    def test_every_form_of_a_row_writes_the_same_line(self):
        def of_numpy(row):
            return np.array(row, np.float32)

        def of_dict(row):
            return {token: weight for token, weight in reversed(list(enumerate(row)))}

        written = []
        for form in (list, of_numpy, of_dict):
            with self.writer() as trace:
                self.rounds(trace, form)
            written.append(self.path.read_bytes())
            self.assertNotEqual(draftproof.check_trace(self.path).verdict, "BUG_PROVEN")
        self.assertEqual(len(set(written)), 1)
        self.assertEqual(self.lines()[2]["p_rows"][0], [0, "0x1.8p-2", 1, "0x1p-2", 2, "0x1p-2", 3, "0x1p-3"])

    def test_arrays_of_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        with self.writer() as trace:
            self.rounds(trace, lambda row: torch.tensor(row, dtype=torch.bfloat16), torch.tensor)
        torch_file = self.path.read_bytes()
        with self.writer() as trace:
            self.rounds(trace, list)
        self.assertEqual(self.path.read_bytes(), torch_file)

    def test_what_has_detach_and_tolist_is_an_array(self):
        class Tensor:
            """The part of torch.Tensor that is used."""

            def __init__(self, values):
                self.values = np.array(values)

            def detach(self):
                return self

            def cpu(self):
                return self

            def is_floating_point(self):
                return True

            def double(self):
                return self

            def numpy(self):
                return self.values.astype(np.float64)

            def tolist(self):
                return self.values.tolist()

        with self.writer() as trace:
            self.rounds(trace, Tensor, Tensor)
        self.assertEqual(self.lines()[2]["q_draft"], ["0x1p-1", "0x1p-2"])

    def test_no_bit_of_a_float_is_lost(self):
        numbers = [0.1, 1 / 3, 5e-324, 2.0**-1074, 1 - 2**-53, 0.0]
        with self.writer() as trace:
            trace.sequence(prompt=[1], temperature=np.float32(0.7))
            trace.round(emitted=[0] * 6, logprobs=[-number for number in numbers])
            trace.round(emitted=[0] * 6, logprobs=-np.array(numbers, np.float32))
            trace.end("length")
        self.assertEqual([-float.fromhex(text) for text in self.lines()[2]["logprobs"]], numbers)
        self.assertEqual(float.fromhex(self.lines()[1]["temperature"]), float(np.float32(0.7)))
        draftproof.check_trace(self.path)

    def test_rows_beside_the_trace(self):
        for total, form in ((None, np.array), (TOTAL, lambda row: (np.array(row) * TOTAL).astype(np.uint64))):
            with self.subTest(total=total), self.writer(rows=True, total_weight=total) as trace:
                trace.sequence(prompt=[1], temperature=1, max_new_tokens=3)
                trace.round(emitted=[0, 1], p_rows=[form([0.5, 0.25, 0.25, 0]), form([0, 1, 0, 0])])
                trace.round(emitted=[3], p_rows=form([[0.125, 0.125, 0.25, 0.5]]))
                trace.end("length")
            self.assertEqual(self.lines()[0]["rows_file"], "run.jsonl.rows.h5")
            self.assertEqual(self.lines()[3]["p_rows"]["row"], 2)
            self.assertEqual(draftproof.check_trace(self.path).verdict, "UNDECIDED")  # too few to show anything
            self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["run.jsonl", "run.jsonl.rows.h5"])
            # The check reads them: the token has no weight.
            wrong = self.path.read_text().replace('"emitted":[0,1]', '"emitted":[0,0]')
            self.path.write_text(re.sub(r',"sha256":"\w+"}\n$', "}\n", wrong))
            self.assertEqual(draftproof.check_trace(self.path).verdict, "BUG_PROVEN")

    def test_the_rows_file_is_that_of_the_page(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("h5py is not installed")
        block = re.findall(
            r"^```python\n(.*?)^```$", (ROOT / "docs/spectrace.md").read_text(), re.DOTALL | re.MULTILINE
        )
        names = {"h5py": h5py}
        exec(next(text for text in block if "SpecRows" in text), names)
        row = {0: 0.5, 3: 0.5}
        with self.writer(rows=True) as trace:
            trace.sequence(prompt=[1], temperature=1)
            trace.round(emitted=[0], p_rows=[row])
            trace.end("length")
        self.assertEqual(names["read_row"](self.folder / "run.jsonl.rows.h5", 0), row)
        own = names["SpecRows"](str(self.folder / "own.h5"), "<f8")
        self.assertEqual(own.add([row]), self.lines()[2]["p_rows"])
        own.close()

    def test_a_lossless_engine_with_rows_passes_and_one_that_repeats_does_not(self):
        for repeats, verdict in ((False, "PASS_STAT"), (True, "BUG_STAT")):
            source = random.Random(1)
            with self.writer(8, rows=True) as trace:
                for _ in range(40):
                    trace.sequence(prompt=[1], temperature=1, max_new_tokens=50)
                    before = 0
                    for _ in range(50):
                        row = np.arange(1, 9) / 36
                        token = source.choices(range(8), row)[0]
                        if repeats and source.random() < 0.3:
                            token = before
                        trace.round(emitted=[token], p_rows=[row])
                        before = token
                    trace.end("length")
            self.assertEqual(draftproof.check_trace(self.path).verdict, verdict)

    def test_sequences_may_be_interleaved(self):
        with self.writer(2048, "greedy") as trace:
            first = trace.sequence(prompt=PROMPT, temperature=0)
            second = trace.sequence(prompt=PROMPT, temperature=0, sequence=5)
            trace.round(emitted=[290], sequence=first)
            trace.round(emitted=[290, 1286], sequence=second)
            trace.round(emitted=[1286], sequence=first)
            trace.end("length", sequence=first)
            trace.end("length", sequence=second)
        self.assertEqual((first, second), (0, 5))
        self.assertEqual(draftproof.check_trace(self.path, target=TARGET).verdict, "PASS_STAT")

    def test_a_context_shift(self):
        with self.writer() as trace:
            trace.sequence(prompt=[1, 2, 3], temperature=1)
            trace.round(emitted=[0, 1])
            self.expect("must lie in [4, 4]", trace.context_shift, tokens_read=5, keep=1, discard=2)
            self.expect("must leave", trace.context_shift, tokens_read=4, keep=1, discard=4)
            trace.context_shift(tokens_read=4, keep=1, discard=2)
            trace.round(emitted=[2])
            trace.end("length")
        draftproof.check_trace(self.path)


class Interrupted(Case):
    def test_an_exception_leaves_the_trace_of_an_interrupted_run(self):
        for rows in (False, True):
            with self.assertRaises(KeyboardInterrupt):
                with self.writer(2048, "greedy", rows=rows) as trace:
                    trace.sequence(prompt=PROMPT, temperature=0)
                    trace.round(emitted=[290])
                    raise KeyboardInterrupt
            self.assertEqual([line["type"] for line in self.lines()], ["header", "sequence", "round"])
            report = draftproof.check_trace(self.path, target=TARGET)
            self.assertEqual(report.verdict, "UNDECIDED")
            self.assertIn("interrupted", str(report))

    def test_a_forgotten_end_is_an_error(self):
        with self.assertRaises(draftproof.Error) as caught:
            with self.writer() as trace:
                trace.sequence(prompt=[1], temperature=1)
        self.assertIn("no end was written of sequence 0", str(caught.exception))

    def test_nothing_can_be_written_afterwards(self):
        with self.writer() as trace:
            pass
        self.expect("is closed", trace.sequence, prompt=[1], temperature=1)

    def test_a_killed_process_leaves_whole_lines(self):
        script = f"""
            import os, signal, draftproof
            with draftproof.TraceWriter({str(self.path)!r}, vocabulary=4, rule="greedy") as trace:
                trace.sequence(prompt=[1], temperature=0)
                trace.round(emitted=[0])
                os.kill(os.getpid(), signal.SIGKILL)
        """
        killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script)])
        self.assertEqual(killed.returncode, -signal.SIGKILL)
        self.assertEqual(draftproof.check_trace(self.path).verdict, "UNDECIDED")


class Fuzz(Case):
    """Whatever is not refused is read."""

    def test_whatever_is_written_is_read(self):
        written = refused = 0
        for seed in range(400):
            source = random.Random(seed)
            accepted, bad = self.write(source)
            written, refused = written + accepted, refused + bad
            try:
                draftproof.check_trace(self.path)
            except draftproof.Error as wrong:
                self.fail(f"seed {seed}: {wrong}")
        self.assertGreater(written, 500)
        self.assertGreater(refused, 500)

    def write(self, source):
        total = source.choice([None, None, 16, TOTAL])
        rule = source.choice(["rejection", "matching", "greedy", "block", "lossy:x"])
        counts = [0, 0]

        def attempt(call, *arguments, **fields):
            try:
                call(*arguments, **fields)
                counts[0] += 1
            except draftproof.Error:
                counts[1] += 1

        rows = source.random() < 0.3 and total != 16
        with self.assertRaises(ZeroDivisionError), self.writer(4, rule, total_weight=total, rows=rows) as trace:
            for _ in range(3):
                attempt(trace.sequence, **self.some(source, self.sequence_fields(source)))
                for _ in range(3):
                    attempt(trace.round, **self.some(source, self.round_fields(source, total)))
                    if source.random() < 0.1:
                        numbers = [source.randrange(4) for _ in range(3)]
                        attempt(trace.context_shift, **dict(zip(("tokens_read", "keep", "discard"), numbers)))
                if source.random() < 0.8:
                    attempt(trace.end, source.choice(["stop", "length", "cancelled", "other:x", "other:", "x"]))
            raise ZeroDivisionError
        return counts

    @staticmethod
    def some(source, fields):
        """Keeps the fields that are always there, marked by a list, and a few others."""
        return {name: value for name, (value, often) in fields.items() if source.random() < often}

    @staticmethod
    def sequence_fields(source):
        return {
            "prompt": (
                [source.randrange(-1, 5) if source.random() < 0.1 else 1 for _ in range(source.randrange(4))],
                1,
            ),
            "temperature": (source.choice([0, 1.0, 0.5, math.inf]) if source.random() < 0.3 else 1.0, 1),
            "stop_tokens": ([2, 3], 0.5),
            "stop_token_emitted": (source.choice([True, False]), 0.5),
            "rule": (source.choice(["matching", "block", "greedy", "rejection", "lossy:y"]), 0.3),
            "max_new_tokens": (source.randrange(-1, 9), 0.3),
            "grammar": (source.choice(["", 'root ::= "a"']), 0.2),
            "constrained_prompt": (source.randrange(3), 0.2),
            "logit_bias": (source.choice([{1: 2}, {"3": -1.5}, {4: 1}]), 0.2),
            "sampler_order": (["temperature", "top_k"], 0.2),
            "adjustments": (["xtc"], 0.1),
            "masked": (source.choice([True, False]), 0.5),
            "other_sampler": (source.choice(["", "mirostat"]), 0.1),
            "continues": (0, 0.1),
            "reused": (source.randrange(3), 0.2),
            "top_k": (source.choice([2, -1, 2**31]), 0.2),
            "xtc_probability": (source.choice([0.5, -1.0, math.inf]), 0.1),
            "dry_allowed_length": (source.choice([2, -1, 2**31]), 0.1),
            "dry_breakers": (source.choice([[3, 1], [5]]), 0.1),
        }

    @staticmethod
    def round_fields(source, total):
        drafted = source.randrange(4)
        accepted = source.randrange(drafted + 1)

        def size(wanted):
            return max(0, wanted + source.choice([0] * 12 + [-1, 1]))

        def token():
            return source.randrange(-1, 5) if source.random() < 0.05 else source.randrange(4)

        def weight():
            if total:
                return source.randrange(total + 1)
            return source.choice([0.0, 0.25, 0.5, 1.0, 1.5, math.nan]) if source.random() < 0.1 else source.random()

        def row():
            if source.random() < 0.1:
                return source.choice([[0.5, 0.5, 0.5, 0.5], {9: 1.0}, [1.0], {}, {0: math.nan}, {0: -1.0, 1: 2.0}])
            edges = sorted(source.randrange((total or TOTAL) + 1) for _ in range(3))
            weights = [b - a for a, b in zip([0, *edges], [*edges, total or TOTAL])]
            return weights if total else [w / TOTAL for w in weights]

        def many(make, count):
            return [make() for _ in range(size(count))]

        before = source.randrange(total or 2)
        draw = {
            "token": token(),
            "bound": total or 1,
            "before": before,
            "weight": 1,
            "u": source.choice([None, before]),
        }
        with_draft = {
            "draft_tokens": (many(token, drafted), 0.8),
            "accepted": (accepted, 0.95),
            "next_from": (source.choice(["residual", "bonus", "target", "greedy"]), 0.95),
            "width": (source.randrange(1, 5), 0.3),
            "q_draft": (many(weight, drafted), 0.3),
            "p_draft": (many(weight, source.choice([drafted, min(drafted, accepted + 1)])), 0.3),
            "accept_u": (many(lambda: source.choice([None, weight()]), source.choice([drafted, accepted])), 0.2),
            "p_before": (many(lambda: source.randrange((total or 1) + 1), accepted), 0.1),
            "draft_u": (many(weight, drafted), 0.1),
            "q_before": (many(lambda: source.randrange((total or 1) + 1), drafted), 0.1),
            "next": (draw, 0.2 if total else 0.02),
            "next_u": (source.choice([None, 0.5]), 0.02 if total else 0.2),
            "q_rows": (many(row, drafted), 0.2),
            "draft_asked": ([1, 2], 0.2),
            "draft_cut": (source.randrange(3), 0.1),
            "draft_forced": (source.randrange(3), 0.1),
            "verify_seconds": (0.5, 0.1),
            "draft_seconds": (0.25, 0.1),
            "p_digests": (many(lambda: "0" * 32, accepted + 1), 0.1),
            "top_logits": (many(lambda: [token(), 1.5, token(), 1], accepted + 1), 0.1),
            "rng_positions": ({"target": [1, 2], "draft": [3]}, 0.1),
        }
        if source.random() < 0.3:
            parents = [source.randrange(-1, place) for place in range(drafted)]
            path, above = [], -1
            while len(path) < accepted and above in parents:
                above = source.choice([place for place, parent in enumerate(parents) if parent == above])
                path.append(above)
            with_draft["accepted"] = (size(len(path)), 0.95)
            with_draft["accepted_path"] = (path if source.random() < 0.9 else [0, 1], 0.95)
            with_draft["draft_parents"] = (parents if source.random() < 0.9 else [0], 0.95)
            with_draft["sibling_draws"] = ([source.choice([None, draw]) for _ in path], 0.2 if total else 0.02)
            with_draft["sibling_u"] = ([source.choice([None, 0.5]) for _ in path], 0.02 if total else 0.2)
        if source.random() < 0.25:
            with_draft = {}
        emitted = many(token, source.randrange(1, accepted + 2))
        rows_of = accepted + 1 if with_draft else len(emitted)
        return {
            "emitted": (emitted, 1),
            **with_draft,
            "p_rows": (many(row, rows_of), 0.3),
            "logprobs": (many(lambda: -source.random(), len(emitted)), 0.1),
            "top_logprobs": (many(lambda: {0: -1.0, 2: -2.5}, len(emitted)), 0.1),
            "allowed_tokens": (many(lambda: source.choice([None, {"only": [1, 3]}, {"except": []}]), rows_of), 0.1),
            "allowed_digests": (many(lambda: "0" * 32, rows_of), 0.1),
            "state_digest": ("0" * 32, 0.1),
            "target_held": (source.randrange(-1, 3), 0.1),
            "draft_held": ([1], 0.2),
            "draft_unread": (many(lambda: 0, 1), 0.1),
            "draft_anchor": (1, 0.05),
            "position": (source.randrange(9), 0.05),
        }


class LinesOfATrace(unittest.TestCase):
    def test_texts_and_dicts_are_a_trace(self):
        lines = (ROOT / "docs/examples/tokens_doubled.jsonl").read_text().splitlines()
        of_file = draftproof.check_trace(ROOT / "docs/examples/tokens_doubled.jsonl", target=TARGET)
        for given in (lines, map(json.loads, lines), (line + "\n" for line in lines)):
            report = draftproof.check_trace(given, target=TARGET)
            self.assertEqual(report.findings[0].message, of_file.findings[0].message)
            self.assertEqual(report.findings[0].place.line, 5)

    def test_other_lines_are_refused(self):
        for words, lines in (("line 1 of the trace is a int", [1]), ("lines:1", ["{}"]), ("lines", [])):
            with self.assertRaises(draftproof.Error) as caught:
                draftproof.check_trace(lines)
            self.assertIn(words, str(caught.exception))

    def test_progress_is_told_every_line(self):
        seen = []
        draftproof.check_trace(ROOT / "docs/examples/tokens.jsonl", target=TARGET, progress=seen.append)
        self.assertEqual(seen, list(range(1, 9)))

        model = draftproof.Model(TARGET)
        texts = []

        def generate(line):
            texts.append(model.generate(PROMPT, max_new_tokens=2).tokens)

        draftproof.check_trace(ROOT / "docs/examples/tokens.jsonl", target=TARGET, progress=generate)
        self.assertEqual(texts, [[290, 1286]] * 8)

        def stop(line):
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            draftproof.check_trace(ROOT / "docs/examples/tokens.jsonl", progress=stop)

    def test_control_c_ends_a_check(self):
        script = f"""
            import draftproof
            header = {{"type": "header", "schema": "spectrace/2", "engine": "e", "vocabulary": 2048, "rule": "greedy"}}
            def lines():
                yield header
                for number in range(20000):
                    yield {{"type": "sequence", "sequence": number, "prompt": [number % 2000], "temperature": "0x0p+0"}}
                    yield {{"type": "round", "sequence": number, "round": 0, "position": 1, "emitted": [1] * 20}}
                    yield {{"type": "end", "sequence": number, "reason": "length"}}
            try:
                draftproof.check_trace(lines(), target={str(TARGET)!r}, tie=100,
                                       progress=lambda line: line == 10 and print("checking", flush=True))
            except KeyboardInterrupt:
                print("interrupted")
        """
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
        ) as process:
            self.assertEqual(process.stdout.readline(), "checking\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.stdout.read(), "interrupted\n")
            self.assertEqual(process.wait(), 0)


if __name__ == "__main__":
    unittest.main()
