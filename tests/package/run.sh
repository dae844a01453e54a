#!/bin/sh
# Makes the Debian package, looks into it, and lets the command in it serve the model in it. Is skipped where packages
# cannot be made. SPDX-License-Identifier: MIT
#
#     run.sh BUILD
set -eu
build=$1
command -v dpkg-shlibdeps >/dev/null || { echo "skipped: the Debian package dpkg-dev is missing" >&2; exit 77; }
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT

(cd "$build" && cpack -B "$folder" >"$folder/log") || { cat "$folder/log"; exit 1; }
package=$(echo "$folder"/*.deb)
dpkg-deb -I "$package"
dpkg-deb -c "$package" >"$folder/list"
for file in usr/bin/draftproof usr/share/man/man1/draftproof.1.gz usr/lib/systemd/system/draftproof.service \
  etc/default/draftproof usr/share/doc/draftproof/copyright usr/share/draftproof/models/tale-target/model.safetensors; do
  grep -q " \./$file\$" "$folder/list" || { echo "the package lacks $file" >&2; exit 1; }
done
if grep -E 'include/|\.a$' "$folder/list"; then
  echo "the package has what only developers need" >&2
  exit 1
fi

dpkg-deb -x "$package" "$folder/root"
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
