// SPDX-License-Identifier: MIT
#include <malloc.h>

#include "tools/command.h"

int main(int argc, char** argv) {
  // glibc raises this limit when a large block is freed. Then weights and KV caches would lie among small blocks, which
  // keep the memory between them from going back to the system.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  return draftproof::run_command(argc, argv);
}
