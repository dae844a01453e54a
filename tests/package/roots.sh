#!/bin/sh
# Installs the packages in a bare root of a distribution and uses them there: the command, its service's files, the
# example project with the libraries, the Python package; and removes them. Needs root, debootstrap and a network.
# SPDX-License-Identifier: MIT
#
#     roots.sh FOLDER SUITE [PACKAGES]
#
# SUITE is bookworm, trixie or noble; its root is made as FOLDER/SUITE where it is missing. PACKAGES is a folder of
# packages that were made on this distribution. Without it they are made in FOLDER/SUITE-build, by `make demo package` on
# a copy of this checkout, which takes as long as a build; JOBS says with how many processes.
set -eu
[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || { echo "skipped: needs root and debootstrap" >&2; exit 77; }
if [ -z "${DRAFTPROOF_MOUNTS:-}" ]; then
  DRAFTPROOF_MOUNTS=own exec unshare --mount "$0" "$@"  # what is mounted below goes when this ends
fi
source=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd) suite=$2 packages=${3:-}
bare=$folder/$suite

if [ ! -e "$bare.made" ]; then
  rm -rf "$bare"
  case $suite in
    noble) debootstrap --variant=minbase --components=main,universe --keyring="${UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}" \
      "$suite" "$bare" http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy ;;
    *) debootstrap --variant=minbase "$suite" "$bare" http://deb.debian.org/debian ;;
  esac
  touch "$bare.made"
fi

# A new copy of the bare root, ready to be entered.
copy() {
  rm -rf "${bare:?}-$1"
  cp -a "$bare" "$bare-$1"
  cp /etc/resolv.conf "$bare-$1/etc/resolv.conf"
  mount -t proc proc "$bare-$1/proc"
  mount --rbind /dev "$bare-$1/dev"
}
inside() {
  root=$bare-$1
  shift
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    JOBS="${JOBS:-$(nproc)}" SOURCE_DATE_EPOCH="$(git -C "$source" log -1 --format=%ct)" \
    chroot "$root" /bin/sh -eu -c "cd /root; $*"
}

if [ -z "$packages" ]; then
  copy build
  mkdir "$bare-build/root/draftproof"
  (cd "$source" && git ls-files -z | tar --null --files-from=- -cf -) | tar -C "$bare-build/root/draftproof" -xf -
  inside build "apt-get update -qq; apt-get install -y -qq --no-install-recommends make ca-certificates git >/dev/null
    cd draftproof; make demo package JOBS=\$JOBS"
  packages=$bare-packages
  rm -rf "$packages"
  mkdir "$packages"
  cp "$bare-build/root/draftproof/build/"*.deb "$packages"
fi

copy user
cp "$packages"/*.deb "$bare-user/root"
cp -r "$source/docs/examples" "$bare-user/root/examples"
install="apt-get install -y -qq --no-install-recommends"
models=/usr/share/draftproof/models
inside user "apt-get update -qq
  $install ./draftproof_*.deb >/dev/null
  draftproof --version
  draftproof verify $models/tale-target --draft dflash:$models/tale-dflash --effort quick --max-new-tokens 24 >said ||
    { cat said; exit 1; }
  tail -n 1 said
  draftproof serve $models/tale-target --draft dflash:$models/tale-dflash --port 0 --log-format none >served &
  tries=0
  until grep -q '^listening on ' served; do
    tries=\$((tries + 1))
    [ \$tries -le 600 ] || { echo 'the server does not listen after a minute'; exit 1; }
    sleep 0.1
  done
  draftproof verify --endpoint \$(sed -n 's/^listening on //p' served) $models/tale-target --requests 16
  kill \$!
  wait \$!
  bash -n /usr/share/bash-completion/completions/draftproof
  for file in share/man/man1/draftproof.1.gz share/zsh/site-functions/_draftproof lib/systemd/system/draftproof.service \
    share/fish/vendor_completions.d/draftproof.fish share/doc/draftproof/copyright share/doc/draftproof/draftproof.spdx.json; do
    test -s /usr/\$file || { echo \"the package lacks /usr/\$file\"; exit 1; }
  done"
inside user "$install ./libdraftproof-dev_*.deb g++ cmake ninja-build libgmock-dev >/dev/null
  cmake -S examples/third_party_sampler -B build -G Ninja >said || { cat said; exit 1; }
  cmake --build build
  build/sampler_test >said || { cat said; exit 1; }
  grep 'the careless sampler is one whose' said"
inside user "$install ./python3-draftproof_*.deb >/dev/null
  python3 -c 'import draftproof, draftproof.testing
report = draftproof.check_trace(\"examples/tokens_doubled.jsonl\", target=\"$models/tale-target\")
assert report.verdict == \"BUG_PROVEN\", report
print(draftproof.__version__, draftproof.Model(\"$models/tale-target\").generate(\"Once upon\", max_new_tokens=8).text)'"
inside user "apt-get purge -y -qq draftproof libdraftproof-dev python3-draftproof >/dev/null
  ! find /usr /etc /var/cache -name '*draftproof*' ! -path '*/deb-systemd-helper*' | grep ."
echo "the packages work in a bare $suite, and leave nothing"
