// SPDX-License-Identifier: MIT
// The list of kernel tables. A new table needs its file, its getter in tables.h and a row here.
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

constexpr int tables_max = 9;

struct TableList {
  const Kernels* tables[tables_max + 1] = {};  // ends with nullptr

  TableList() noexcept {
    int count = 0;
    for (const Kernels* table :
         {scalar_kernels(), openblas_kernels(), avx2_kernels(), avx2_vnni_kernels(), avx512_kernels(),
          avx512_vnni_kernels(), avx512_bf16_kernels(), amx_kernels(), neon_kernels()}) {
      if (table != nullptr) tables[count++] = table;
    }
  }
};

Kernels extended(const Kernels& table, const Extension& extension) noexcept {
  Kernels result = table;
  result.name = extension.name;
  result.supported = extension.supported;
  if (extension.pack_activations != nullptr) result.pack_activations = extension.pack_activations;
  result.matmul = extension.matmul;
  if (extension.attention != nullptr) result.attention = extension.attention;
  return result;
}

#if defined(__x86_64__) || defined(__i386__)
/// For features that __builtin_cpu_supports does not know in every compiler. Every CPU with AVX2 has leaf 7.
struct Registers {
  std::uint32_t a, b, c, d;
};
Registers cpuid(std::uint32_t leaf, std::uint32_t subleaf) noexcept {
  Registers r = {leaf, 0, subleaf, 0};
  asm("cpuid" : "+a"(r.a), "=b"(r.b), "+c"(r.c), "=d"(r.d));
  return r;
}

/// Linux allows tile registers to processes that request them. A repeated request is harmless; threads inherit the
/// grant.
bool may_use_tiles() noexcept {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long request = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long tile_data = 18;    // XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, request, tile_data) == 0;
  return granted;
#else
  return false;
#endif
}
#endif

}  // namespace

#if defined(__x86_64__) || defined(__i386__)
bool cpu_has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && (cpuid(1, 0).c & 1u << 29) != 0;  // f16c
}
bool cpu_has_avx2_vnni() noexcept { return cpu_has_avx2() && (cpuid(7, 1).a & 1u << 4) != 0; }
bool cpu_has_avx512() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
}
bool cpu_has_avx512_vnni() noexcept { return cpu_has_avx512() && __builtin_cpu_supports("avx512vnni"); }
bool cpu_has_avx512_bf16() noexcept { return cpu_has_avx512_vnni() && (cpuid(7, 1).a & 1u << 5) != 0; }
bool cpu_is_fast_at_avx512_bf16() noexcept { return __builtin_cpu_is("amd"); }
bool cpu_has_amx() noexcept {
  constexpr std::uint32_t bf16_tile_and_int8 = 1u << 22 | 3u << 24;
  return cpu_has_avx512_bf16() && __builtin_cpu_supports("gfni") &&
         (cpuid(7, 0).d & bf16_tile_and_int8) == bf16_tile_and_int8 && may_use_tiles();
}
#else
bool cpu_has_avx2() noexcept { return false; }
bool cpu_has_avx2_vnni() noexcept { return false; }
bool cpu_has_avx512() noexcept { return false; }
bool cpu_has_avx512_vnni() noexcept { return false; }
bool cpu_has_avx512_bf16() noexcept { return false; }
bool cpu_is_fast_at_avx512_bf16() noexcept { return false; }
bool cpu_has_amx() noexcept { return false; }
#endif

#if defined(__aarch64__)
bool cpu_has_neon() noexcept { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
#else
bool cpu_has_neon() noexcept { return false; }
#endif

const Kernels* avx2_vnni_kernels() noexcept {
  if (avx2_vnni_extension() == nullptr) return nullptr;
  static const Kernels table = extended(*avx2_kernels(), *avx2_vnni_extension());
  return &table;
}

const Kernels* avx512_vnni_kernels() noexcept {
  if (avx512_vnni_extension() == nullptr) return nullptr;
  static const Kernels table = extended(*avx512_kernels(), *avx512_vnni_extension());
  return &table;
}

const Kernels* avx512_bf16_kernels() noexcept {
  if (avx512_bf16_extension() == nullptr) return nullptr;
  static const Kernels table = extended(*avx512_vnni_kernels(), *avx512_bf16_extension());
  return &table;
}

const Kernels* amx_kernels() noexcept {
  if (amx_extension() == nullptr) return nullptr;
  static const Kernels table = extended(*avx512_vnni_kernels(), *amx_extension());
  return &table;
}

const Kernels* const* all_kernels() noexcept {
  static const TableList list;
  return list.tables;
}

const Kernels& best_kernels() noexcept {
  // Does not use the list, because the openblas table, a row of the list, calls this while the list is constructed.
  for (const Kernels* table : {neon_kernels(), amx_kernels(), avx512_bf16_kernels(), avx512_vnni_kernels(),
                               avx512_kernels(), avx2_vnni_kernels(), avx2_kernels()}) {
    const bool slow = table == avx512_bf16_kernels() && !cpu_is_fast_at_avx512_bf16();
    if (table != nullptr && table->supported() && !slow) return *table;
  }
  return *scalar_kernels();
}

const Kernels* find_kernels(const char* name) noexcept {
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (std::strcmp((*table)->name, name) == 0) return *table;
  }
  return nullptr;
}

const char* self_test(const Kernels& table) noexcept {
  if (&table == openblas_kernels()) {
    if (const char* problem = openblas_problem(); *problem != '\0') return problem;
  } else if (!table.supported()) {
    return "This CPU lacks the instructions that the kernels need: choose other kernels.";
  }
  if (!keeps_row_law(table)) {
    return "An operation of these kernels breaks the row law here, a row's bits depend on the rows beside it: choose "
           "other kernels.";
  }
  return "";
}

}  // namespace draftproof
