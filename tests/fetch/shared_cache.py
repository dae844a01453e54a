# SPDX-License-Identifier: MIT
"""One cache for `draftproof` and huggingface_hub: each finds what the other has put there. From a server of this file
that answers as Hugging Face does.

    shared_cache.py DRAFTPROOF FOLDER_OF_A_MODEL
"""

import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

draftproof, model = sys.argv[1], pathlib.Path(sys.argv[2])
COMMIT = "c" * 40
FILES = {name: (model / name).read_bytes() for name in ("config.json", "model.safetensors")}


def digest(name):
    content = FILES[name]
    if name.endswith(".safetensors"):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_content):
        path = self.path.split("?")[0]
        name = path.rsplit("/", 1)[1]
        headers = {"X-Repo-Commit": COMMIT}
        if path.startswith("/api/models/owner/name"):
            siblings = [{"rfilename": each, "size": len(FILES[each]), "blobId": digest(each) if each == "config.json" else "b" * 40}
                        for each in FILES]
            for entry in siblings:
                if entry["rfilename"].endswith(".safetensors"):
                    entry["lfs"] = {"sha256": digest(entry["rfilename"]), "size": entry["size"], "pointerSize": 130}
            content = json.dumps({"id": "owner/name", "modelId": "owner/name", "sha": COMMIT, "private": False,
                                  "tags": [], "downloads": 0, "likes": 0, "siblings": siblings}).encode()
            if "/tree/" in path:
                content = json.dumps([{"type": "file", "path": each["rfilename"], "size": each["size"], "oid": each["blobId"],
                                       **({"lfs": {"oid": each["lfs"]["sha256"], "size": each["size"], "pointerSize": 130}}
                                          if "lfs" in each else {})} for each in siblings]).encode()
        elif path.startswith("/owner/name/resolve/") and name in FILES:
            content = FILES[name]
            headers["ETag"] = f'"{digest(name)}"'
        else:
            self.send_error(404)
            return
        self.send_response(200)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def log_message(self, *_):
        pass


def run(*words):
    return subprocess.run([draftproof, *words], capture_output=True, text=True, check=True).stdout


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
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
