#!/bin/sh
# Prints by folder which share of the lines and branches of the sources the fast tests reach; only those of the folders
# of tests that are named, where some are. SPDX-License-Identifier: MIT
#
#     tests/coverage.sh [FOLDER ...]
#
# Branches that only an exception takes are not counted. A header counts as what is compiled of it.
set -eu
cd "$(dirname "$0")/.."
tools/install_packages.sh python3-venv
build=build-coverage
cmake --preset coverage >/dev/null
find $build -name '*.gcda' -delete  # what earlier runs reached
if [ $# = 0 ]; then
  cmake --build --preset coverage
  ctest --test-dir $build --output-on-failure --no-tests=error -L fast
else
  # shellcheck disable=SC2046
  cmake --build --preset coverage --target draftproof $(printf '%s_test ' "$@")
  for folder in "$@"; do
    ctest --test-dir $build --output-on-failure --no-tests=error -L fast -R "^$folder(_[0-9])?\$"
  done
fi
# Debian 12's gcovr cannot merge functions that objects have at different lines.
[ -x $build/gcovr/bin/gcovr ] || { python3 -m venv $build/gcovr && $build/gcovr/bin/pip -q install 'gcovr>=8,<9'; }
$build/gcovr/bin/gcovr --root . --merge-mode-functions=separate --gcov-ignore-parse-errors=all \
  --exclude-throw-branches --exclude-unreachable-branches --csv --filter 'kernels/' --filter 'ref/' \
  --filter 'oracle/' --filter 'zoo/' --filter 'serve/' --filter 'tools/' $build >$build/coverage.csv
awk -F, '
  NR > 1 {
    folder = $1
    sub("/[^/]*$", "/", folder)
    files[folder]++; lines[folder] += $2; reached[folder] += $3; branches[folder] += $5; taken[folder] += $6
  }
  END {
    for (folder in files)
      printf "%-28s %5d %7d %6.1f%% %8d %6.1f%%\n", folder, files[folder], lines[folder],
             lines[folder] ? 100 * reached[folder] / lines[folder] : 0, branches[folder],
             branches[folder] ? 100 * taken[folder] / branches[folder] : 0
  }' $build/coverage.csv | sort | sed '1i folder                       files   lines reached branches   taken'
