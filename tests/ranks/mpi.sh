# SPDX-License-Identifier: MIT
# What scripts over MPI share; they source it with the words DRAFTPROOF MPIRUN MODELS. Leaves `failed` and `fail`.
set -euo pipefail
draftproof=$1
mpirun=$2
models=$3
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
  echo "FAILED: $*"
  failed=1
}
