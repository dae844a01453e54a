#!/bin/sh
# Builds the last commit twice, in folders of other names, at other times and in another language and time zone, and
# compares the command, the libraries, the Python module and the packages byte by byte. It takes as long as two builds.
# SPDX-License-Identifier: MIT
#
#     twice.sh FOLDER [CMAKE_OPTION ...]
#
# JOBS says with how many processes.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# made NAME OPTIONS: what was built, each with its sha256.
made() {
  name=$1
  shift
  rm -rf "${folder:?}/$name"
  git clone -q "$source" "$folder/$name"
  cmake -S "$folder/$name" -B "$folder/$name/build" -G Ninja "$@" >"$folder/log" || { cat "$folder/log"; exit 1; }
  cmake --build "$folder/$name/build" --parallel "${JOBS:-$(nproc)}" --target draftproof draftproof_python \
    >"$folder/log" || { cat "$folder/log"; exit 1; }
  (cd "$folder/$name/build" && umask 022 && cpack >"$folder/log" && sha256sum draftproof *.a python/draftproof/*.so *.deb) >"$folder/$name.sha256" ||
    { cat "$folder/log"; exit 1; }
}
made one "$@"
sleep 61  # formats of archives know minutes, or even seconds
umask 077
export TZ=Asia/Kathmandu LC_ALL=C
made "the_other_in_a_folder_of_a_longer_name" "$@"

diff "$folder/one.sha256" "$folder/the_other_in_a_folder_of_a_longer_name.sha256"
cat "$folder/one.sha256"
echo "two builds of $(git -C "$source" rev-parse --short HEAD) are the same $(wc -l <"$folder/one.sha256") files"
