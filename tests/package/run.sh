#!/bin/sh
# Makes the Debian packages, looks into them, and lets the command in one serve the model in it. Is skipped where
# packages cannot be made. SPDX-License-Identifier: MIT
#
#     run.sh BUILD
set -eu
build=$1
PATH=/usr/bin:$PATH  # the distribution's CMake first, which may be older than another that is installed
command -v dpkg-shlibdeps >/dev/null || { echo "skipped: the Debian package dpkg-dev is missing" >&2; exit 77; }
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT

(cd "$build" && cpack -B "$folder" >"$folder/log") || { cat "$folder/log"; exit 1; }
# has PACKAGE FILE...: the package has the files; what it has is in $folder/list.
has() {
  dpkg-deb -c "$1" >"$folder/list"
  for file; do
    [ "$file" = "$1" ] || grep -q " \./$file\$" "$folder/list" || { echo "$1 lacks $file" >&2; exit 1; }
  done
}
package=$(echo "$folder"/draftproof_*.deb)
dpkg-deb -I "$package"
has "$(echo "$folder"/libdraftproof-dev_*.deb)" usr/include/draftproof/oracle/matchers.h \
  "usr/lib/.*libdraftproof_oracle.a" "usr/lib/.*cmake/draftproof/draftproof-config.cmake"
if grep -E "usr/bin/|model.safetensors|[.]service" "$folder/list"; then
  echo "the package of the libraries has what is the command's" >&2
  exit 1
fi
if [ -d "$build/python" ]; then
  modules=usr/lib/python3/dist-packages/draftproof
  has "$(echo "$folder"/python3-draftproof_*.deb)" $modules/__init__.py "$modules/_core\..*\.so" $modules/py.typed \
    $modules/adapters/vllm.py $modules/models/tale-small/model.safetensors "$modules-.*\.dist-info/entry_points.txt"
fi
has "$package" usr/bin/draftproof usr/share/man/man1/draftproof.1.gz usr/lib/systemd/system/draftproof.service \
  usr/share/bash-completion/completions/draftproof etc/default/draftproof usr/share/doc/draftproof/copyright \
  usr/share/draftproof/models/tale-target/model.safetensors
if grep -E 'include/|\.a$' "$folder/list"; then
  echo "the package has what only developers need" >&2
  exit 1
fi

dpkg-deb -x "$package" "$folder/root"
# Of what the command is made, where Python could say so.
bill=$folder/root/usr/share/doc/draftproof/draftproof.spdx.json
if [ -e "$bill" ]; then
  for name in libstdc++6 libcpp-httplib nlohmann-json3-dev libhdf5; do
    grep -q "\"name\": \"$name" "$bill" || { echo "$bill does not name $name" >&2; exit 1; }
  done
fi
unit=$folder/root/usr/lib/systemd/system/draftproof.service
if command -v systemd-analyze >/dev/null; then
  sed "s|/usr/bin/draftproof|$folder/root/usr/bin/draftproof|; s|/etc/default|$folder/root/etc/default|" "$unit" \
    >"$folder/draftproof.service"
  systemd-analyze verify --man=no "$folder/draftproof.service"
fi

# What the service runs, with its settings.
# shellcheck disable=SC1091
. "$folder/root/etc/default/draftproof"
in_root() { echo "$1" | sed "s|/usr/share|$folder/root/usr/share|g"; }
# shellcheck disable=SC2046
"$folder/root/usr/bin/draftproof" serve "$(in_root "$MODEL")" --prefix-cache "$folder/cache" $(in_root "$OPTIONS") \
  --port 0 >"$folder/said" &
server=$!
tries=0
until grep -q "^listening on " "$folder/said"; do
  tries=$((tries + 1))
  [ $tries -le 300 ] || { echo "the server does not listen after 30 seconds" >&2; exit 1; }
  sleep 0.1
done
"$folder/root/usr/bin/draftproof" verify --endpoint "$(sed -n 's/^listening on //p' "$folder/said")" \
  "$(in_root "$MODEL")" --requests 8
kill -TERM "$server"
wait "$server"
server=
ls "$folder/cache"/tale-target-*.h5
