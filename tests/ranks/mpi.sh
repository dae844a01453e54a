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

# write_campaign SEEDS: c.json, a campaign of six trials for each seed.
write_campaign() {
  cat > c.json << END
{"targets": ["$models/tale-target"], "drafts": ["suffix", "model:$models/tale-small"],
 "rules": ["matching", "rejection"], "sampling": [{}, {"temperature": 1}], "seeds": [$1],
 "prompts": ["Once upon a time there was a fox. The fox ran. The fox ran."], "max_new_tokens": 16,
 "skip_checks": ["repeatable", "chunked_prefill_and_resume", "sequence_isolation", "prefix_reuse", "batch_invariance",
                 "cache_rollback", "distribution_exact", "exhaustive_small_cases"]}
END
}

# results: how many of its trials are finished.
results() { { find c.results/trials -name '*.json' 2> /dev/null || true; } | wc -l; }
