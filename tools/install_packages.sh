#!/bin/sh
# Installs the Debian packages that building and testing need, and those named as arguments; does nothing when all are
# there.
# SPDX-License-Identifier: MIT
set -eu

packages="g++ cmake ninja-build pkg-config libboost-dev libcli11-dev libcpp-httplib-dev libcurl4-openssl-dev libeigen3-dev libfmt-dev \
libgmock-dev libgmp-dev libgtest-dev libhdf5-dev libicu-dev libopenblas-dev libpcre2-dev librapidcheck-dev \
libxxhash-dev nlohmann-json3-dev $*"

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "draftproof sets itself up on Debian and its relatives only; install the equivalents of these packages and run" >&2
  echo "cmake yourself: $packages" >&2
  exit 1
fi

missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  root=""
elif command -v sudo >/dev/null; then
  root="sudo"
else
  echo "these packages are missing and need root to install; run as root: apt-get install$missing" >&2
  exit 1
fi

echo "== installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -qq
# shellcheck disable=SC2086
$root apt-get install -y -qq --no-install-recommends $missing >/dev/null
