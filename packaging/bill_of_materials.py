#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what build/draftproof is made of as SPDX 2.3: the Debian packages of the libraries that it loads, and those
whose headers it was compiled with.

    bill_of_materials.py BUILD VERSION

The names and versions are dpkg's, so it is a statement about the machine that built the command.
"""
import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def packages_of(files):
    """The packages that own some files. A file of /usr/lib may be owned as one of /lib."""
    paths = set()
    for file in files:
        for path in (file, os.path.realpath(file)):
            paths.update((path, re.sub("^/usr", "", path)))
    found = subprocess.run(["dpkg", "-S", *sorted(paths)], capture_output=True, text=True).stdout  # of some nothing is known
    return owners(found)


def owners(found):
    """The packages in what dpkg -S says: lines `libc6:amd64, libc6:i386: /file`, and others of files that it moved."""
    names = [line.split(": /")[0].split(", ") for line in found.splitlines() if ": /" in line]
    return {name for of_line in names for name in of_line if " " not in name}


def libraries(command):
    return set(re.findall(r"(/\S+) \(0x", output("ldd", str(command))))


def headers(build):
    """What the compilations of the command read outside the project, one file of each folder of a library."""
    if not (build / "build.ninja").exists():
        sys.exit(f"{build} was not configured with `cmake -G Ninja`, which notes what headers were read")
    found = {}
    of_command = False
    for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
        if not line.startswith(" "):
            of_command = not line.startswith(("tests/", "CMakeFiles/draftproof_python.dir/"))
        file = line.strip()
        if of_command and file.startswith("/usr/include/"):
            folder = os.path.dirname(file)
            found.setdefault(file if folder.count("/") < 4 else folder, file)  # /usr/include itself is of many
    return set(found.values())


def main():
    build, version = pathlib.Path(sys.argv[1]), sys.argv[2]
    command = build / "draftproof"
    digest = hashlib.sha256(command.read_bytes()).hexdigest()
    loaded = packages_of(libraries(command))
    compiled = packages_of(headers(build)) - loaded
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", command.stat().st_mtime))
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    distribution = platform.freedesktop_os_release()["ID"]
    unknown = {"downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"}
    packages = [{"SPDXID": "SPDXRef-draftproof", "name": "draftproof", "versionInfo": version, "filesAnalyzed": False,
                 "checksums": [{"algorithm": "SHA256", "checksumValue": digest}], **unknown, "licenseDeclared": "MIT"}]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                  "relatedSpdxElement": "SPDXRef-draftproof"}]
    for name in sorted(loaded | compiled):
        facts = output("dpkg-query", "-W", "-f=${Package}\t${Version}\t${Architecture}\t${Homepage}", name).split("\t")
        known = f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', facts[0])}"
        packages.append({"SPDXID": known, "name": facts[0], "versionInfo": facts[1], "filesAnalyzed": False, **unknown,
                         "licenseDeclared": "NOASSERTION", "homepage": facts[3] or "NOASSERTION",
                         "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                           "referenceLocator": f"pkg:deb/{distribution}/{facts[0]}@{facts[1]}?arch={facts[2]}"}]})
        relations.append({"spdxElementId": "SPDXRef-draftproof", "relationshipType": "DYNAMIC_LINK",
                          "relatedSpdxElement": known} if name in loaded else
                         {"spdxElementId": known, "relationshipType": "BUILD_DEPENDENCY_OF",
                          "relatedSpdxElement": "SPDXRef-draftproof"})
    print(json.dumps({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                      "name": f"draftproof-{version}",
                      "documentNamespace": f"https://draftproof.invalid/spdx/draftproof-{version}-{digest}",
                      "creationInfo": {"created": created, "creators": ["Tool: draftproof-bill_of_materials.py"]},
                      "packages": packages, "relationships": relations}, indent=1))


if __name__ == "__main__":
    main()
