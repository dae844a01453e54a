# SPDX-License-Identifier: MIT
"""Puts a file together from the large entries of wheels: wheels.py FOLDER FILE SHA256."""

import hashlib
import pathlib
import sys
import zipfile

folder, file, digest = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
partial = file.with_suffix(".partial")
sha256 = hashlib.sha256()
with partial.open("wb") as to:
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
                if entry.file_size <= 1 << 20:
                    continue
                with archive.open(entry) as part:
                    while piece := part.read(1 << 20):
                        sha256.update(piece)
                        to.write(piece)
if sha256.hexdigest() != digest:
    sys.exit(f"{file}: has the digest {sha256.hexdigest()}, not {digest}")
partial.rename(file)
