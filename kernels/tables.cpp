// SPDX-License-Identifier: MIT
// The list of tables. A new one: its file, its getter in tables.h, its row here.
#include "kernels/tables.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstring>
#include <initializer_list>

#include "kernels/openblas.h"
#include "kernels/row_law.h"

namespace draftproof {
namespace {

constexpr int tables_max = 8;

struct List {
  const Kernels* tables[tables_max + 1] = {};  // ends with nullptr

  List() noexcept {
    int count = 0;
    for (const Kernels* table :
         {scalar_kernels(), openblas_kernels(), avx2_kernels(), avx2_vnni_kernels(), avx512_kernels(),
          avx512_vnni_kernels(), amx_kernels(), neon_kernels()}) {
      if (table != nullptr) tables[count++] = table;
    }
  }
};

#if defined(__linux__) && defined(__x86_64__)
/// Linux keeps tile registers for processes that asked for them; asking again is harmless, threads inherit the answer.
bool may_use_tiles() noexcept {
  constexpr long request = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long tile_data = 18;    // XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, request, tile_data) == 0;
  return granted;
}
#else
bool may_use_tiles() noexcept { return false; }
#endif

}  // namespace

#if defined(__x86_64__) || defined(__i386__)
bool cpu_has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
bool cpu_has_avx2_vnni() noexcept {
  // Leaf 7, subleaf 1, EAX bit 4; __builtin_cpu_supports learnt the name after g++ 12.
  std::uint32_t a = 7;
  std::uint32_t b = 0;
  std::uint32_t c = 1;
  std::uint32_t d = 0;
  asm("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return cpu_has_avx2() && (a & 1u << 4) != 0;
}
bool cpu_has_avx512() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
}
bool cpu_has_avx512_vnni() noexcept { return cpu_has_avx512() && __builtin_cpu_supports("avx512vnni"); }
bool cpu_has_amx() noexcept {
  return cpu_has_avx512_vnni() && __builtin_cpu_supports("gfni") && __builtin_cpu_supports("amx-tile") &&
         __builtin_cpu_supports("amx-int8") && may_use_tiles();
}
#else
bool cpu_has_avx2() noexcept { return false; }
bool cpu_has_avx2_vnni() noexcept { return false; }
bool cpu_has_avx512() noexcept { return false; }
bool cpu_has_avx512_vnni() noexcept { return false; }
bool cpu_has_amx() noexcept { return false; }
#endif

#if defined(__aarch64__)
bool cpu_has_neon() noexcept { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
#else
bool cpu_has_neon() noexcept { return false; }
#endif

const Kernels* const* all_kernels() noexcept {
  static const List list;
  return list.tables;
}

const Kernels& best_kernels() noexcept {
  // Not by way of the list: the openblas table, a row of it, asks here while the list is being made.
  for (const Kernels* table : {neon_kernels(), amx_kernels(), avx512_vnni_kernels(), avx512_kernels(),
                               avx2_vnni_kernels(), avx2_kernels()}) {
    if (table != nullptr && table->supported()) return *table;
  }
  return *scalar_kernels();
}

const Kernels* find_kernels(const char* name) noexcept {
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (std::strcmp((*table)->name, name) == 0) return *table;
  }
  return nullptr;
}

const char* unfit(const Kernels& table) noexcept {
  if (&table == openblas_kernels()) {
    if (const char* problem = openblas_problem(); *problem != '\0') return problem;
  } else if (!table.supported()) {
    return "This CPU lacks the instructions that the kernels need: choose other kernels.";
  }
  if (!keeps_row_law(table)) {
    return "The matmul of these kernels breaks the row law here, a row's bits depend on the rows beside it: choose "
           "other kernels.";
  }
  return "";
}

}  // namespace draftproof
