# SPDX-License-Identifier: MIT
"""A server that answers as Hugging Face does, for one repository, owner/name: the weights and the config of a folder."""

import hashlib
import http.server
import json
import threading

COMMIT = "c" * 40
NAMES = ("config.json", "model.safetensors")


def start(model):
    """Returns the address of a server of the folder `model`, which runs as long as the process."""
    files = {name: (model / name).read_bytes() for name in NAMES}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("OfFolder", (Hub,), {"files": files}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def digest(name, content):
    if name.endswith(".safetensors"):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    files = {}

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_content):
        path = self.path.split("?")[0]
        name = path.rsplit("/", 1)[1]
        headers = {"X-Repo-Commit": COMMIT}
        if path.startswith("/api/models/owner/name"):
            siblings = [{"rfilename": each, "size": len(content), "blobId": digest(each, content) if each == "config.json" else "b" * 40}
                        for each, content in self.files.items()]
            for entry in siblings:
                if entry["rfilename"].endswith(".safetensors"):
                    of_file = digest(entry["rfilename"], self.files[entry["rfilename"]])
                    entry["lfs"] = {"sha256": of_file, "size": entry["size"], "pointerSize": 130}
            content = json.dumps({"id": "owner/name", "modelId": "owner/name", "sha": COMMIT, "private": False,
                                  "tags": [], "downloads": 0, "likes": 0, "siblings": siblings}).encode()
            if "/tree/" in path:
                content = json.dumps([{"type": "file", "path": each["rfilename"], "size": each["size"], "oid": each["blobId"],
                                       **({"lfs": {"oid": each["lfs"]["sha256"], "size": each["size"], "pointerSize": 130}}
                                          if "lfs" in each else {})} for each in siblings]).encode()
        elif path.startswith("/owner/name/resolve/") and name in self.files:
            content = self.files[name]
            headers["ETag"] = f'"{digest(name, content)}"'
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
