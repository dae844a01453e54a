#!/bin/bash
# SPDX-License-Identifier: MIT
# campaign_under_slurm.sh DRAFTPROOF MPIRUN MODELS: the script of docs/campaign.md under a Slurm of this machine alone,
# which this script starts and ends: the report of a job, and of one that was cancelled and sent again, is that of one
# process, to the byte. Needs root and the Debian package slurm-wlm.
for program in munged slurmctld slurmd sbatch; do
  PATH=$PATH:/usr/sbin command -v $program > /dev/null || { echo "skipped: $program is missing" >&2; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: needs root" >&2; exit 77; }
source "$(dirname "$0")/mpi.sh"
page=$(realpath "$(dirname "$0")/../../docs/campaign.md")
PATH=$(dirname "$draftproof"):$(dirname "$mpirun"):$PATH:/usr/sbin
cd "$work"

# Three processes of two cores each, however many this machine has.
machine=$(hostname -s)
mkdir munge state spool
chmod 755 "$work"
dd if=/dev/urandom of=munge/key bs=1024 count=1 2> /dev/null
chmod 600 munge/key
cat > slurm.conf << END
ClusterName=test
SlurmctldHost=$machine(127.0.0.1)
AuthInfo=socket=$work/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldPort=16817
SlurmdPort=16818
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=$machine NodeAddr=127.0.0.1 CPUs=6
PartitionName=all Nodes=ALL Default=YES
END
export SLURM_CONF=$work/slurm.conf
end() {
  kill $(jobs -p) 2> /dev/null || true
  wait
  rm -rf "$work"
}
trap end EXIT
munged --foreground --force --key-file=munge/key --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
  --log-file="$work/munge/log" --seed-file="$work/munge/seed" > munge.txt 2>&1 &
until [ -S munge/socket ]; do sleep 0.1; done
slurmctld -D 2> /dev/null &
slurmd -D -N "$machine" 2> /dev/null &
for _ in $(seq 300); do
  sinfo -h -o %T 2> /dev/null | grep -q idle && break
  sleep 0.1
done

write_campaign "1, 2, 3, 4, 5"  # more trials than end before Slurm has cancelled them
draftproof campaign c.json --quiet --json alone.json || fail "the campaign in one process"
rm -r c.results

{
  sed -n '/^#!\/bin\/bash$/,/^mpirun /p' "$page" | sed 's/FILE.json/c.json/; s/--ntasks=32/--ntasks=3/'
  echo "mpirun --bind-to none sh -c 'echo rank \$OMPI_COMM_WORLD_RANK of \$OMPI_COMM_WORLD_SIZE'"
} > job.sh
[ "$(wc -l < job.sh)" = 4 ] || fail "the page has no script of three lines"
sbatch --output=first.txt job.sh > /dev/null || fail "sbatch"
for _ in $(seq 600); do
  [ "$(results)" -gt 0 ] && break
  sleep 0.05
done
scancel --name=job.sh
until [ -z "$(squeue -h)" ]; do sleep 0.2; done
kept=$(results)
{ [ "$kept" -gt 0 ] && [ "$kept" -lt 30 ]; } || fail "$kept results are left by a cancelled job: $(cat first.txt)"
sbatch --wait --output=second.txt job.sh > /dev/null || fail "the second job: $(cat second.txt)"
cmp alone.json report.json || fail "the report of a job that was cancelled and sent again"
[ "$(grep -c '^rank . of 3$' second.txt)" = 3 ] || fail "the job had not three processes: $(cat second.txt)"

[ "$failed" = 0 ] && echo "cancelled after $kept of 30 trials and sent again: the report is that of one process"
exit "$failed"
