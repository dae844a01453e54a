# SPDX-License-Identifier: MIT
"""The plugin that pytest finds where draftproof is installed: assertions about engines, and small models to try them.

def test_my_engine(assert_lossless, draftproof_models, tmp_path):
    run_my_engine(draftproof_models.target, trace=tmp_path / "run.jsonl")
    assert_lossless(tmp_path / "run.jsonl", target=draftproof_models.target)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from . import testing


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("draftproof", "losslessness of speculative decoding")
    group.addoption(
        "--draftproof-alpha",
        type=float,
        default=testing.ALPHA,
        metavar="ALPHA",
        help="probability with which a check accuses a right engine, at most (default: %(default)s, the least)",
    )
    group.addoption("--draftproof-report", metavar="DIR", help="write the report of every check to this folder")


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    config = request.config
    return {
        "alpha": config.getoption("--draftproof-alpha"),
        "report_folder": config.getoption("--draftproof-report"),
        "name": request.node.nodeid,
    }


@pytest.fixture
def assert_lossless(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """draftproof.testing.assert_lossless, with the options of the command line."""
    return functools.partial(testing.assert_lossless, **_options(request))


@pytest.fixture
def assert_distribution(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """draftproof.testing.assert_distribution, with the options of the command line."""
    return functools.partial(testing.assert_distribution, **_options(request))


@pytest.fixture(scope="session")
def draftproof_models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> testing.Models:
    """The models of the package (draftproof.testing.Models). What is converted stays in pytest's cache."""
    cache = getattr(request.config, "cache", None)
    return testing.Models(cache.mkdir("draftproof") if cache is not None else tmp_path_factory.mktemp("draftproof"))
