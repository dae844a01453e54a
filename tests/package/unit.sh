#!/bin/sh
# The service's unit has the lines that docs/security.md promises, and systemd's own judgment of it is no worse than what
# stands there. SPDX-License-Identifier: MIT
#
#     unit.sh SOURCE
set -eu
unit=$1/packaging/draftproof.service
status=0
while read -r line; do
  grep -qx "$line" "$unit" || { echo "$unit lacks $line" >&2; status=1; }
done <<'LINES'
DynamicUser=yes
LimitCORE=0
NoNewPrivileges=yes
CapabilityBoundingSet=
PrivateUsers=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateMounts=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
LINES
if systemd-analyze --help 2>/dev/null | grep -q -- --offline; then
  score=$(systemd-analyze security --offline=true "$unit" | sed -n 's/.*exposure level for .*: \([0-9.]*\) .*/\1/p')
  grep -q "^says $score " "$1/docs/security.md" || { echo "docs/security.md says another score than $score" >&2; status=1; }
fi
exit $status
