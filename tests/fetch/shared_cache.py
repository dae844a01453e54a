# SPDX-License-Identifier: MIT
"""One cache for `draftproof` and huggingface_hub: each finds what the other has put there.

    shared_cache.py DRAFTPROOF FOLDER_OF_A_MODEL
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import hub

draftproof, model = sys.argv[1], pathlib.Path(sys.argv[2])
FILES = {name: (model / name).read_bytes() for name in hub.NAMES}


def run(*words):
    return subprocess.run([draftproof, *words], capture_output=True, text=True, check=True).stdout


os.environ["HF_ENDPOINT"] = hub.start(model)
os.environ["HF_HUB_DISABLE_XET"] = "1"
import huggingface_hub  # noqa: E402 - reads the environment

with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
    os.environ["HF_HUB_CACHE"] = ours
    path = run("fetch", "owner/name").strip()
    found = huggingface_hub.snapshot_download("owner/name", cache_dir=ours, local_files_only=True)
    assert found == path, (found, path)
    for name, content in FILES.items():
        cached = huggingface_hub.try_to_load_from_cache("owner/name", name, cache_dir=ours)
        assert cached and pathlib.Path(cached).read_bytes() == content, name
    info = huggingface_hub.scan_cache_dir(ours)
    assert [str(each) for each in info.warnings] == [], info.warnings
    assert sum(len(revision.files) for repo in info.repos for revision in repo.revisions) == len(FILES)
    print("huggingface_hub finds what draftproof has fetched")

    os.environ["HF_HUB_CACHE"] = theirs
    huggingface_hub.snapshot_download("owner/name", cache_dir=theirs)
    described = json.loads(run("inspect", "owner/name", "--json"))["checkpoint"]
    assert described["weights"] and described["tensors"] > 0, described
    before = sorted(each.name for each in pathlib.Path(theirs, "models--owner--name").rglob("*"))
    run("fetch", "owner/name")
    assert sorted(each.name for each in pathlib.Path(theirs, "models--owner--name").rglob("*")) == before
    print("draftproof finds what huggingface_hub has downloaded, and adds nothing")
