// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <set>

#include "support.h"

namespace draftproof::test::tables_test {
namespace {

TEST(Tables, TheScalarTableComesFirstAndIsAlwaysSupported) {
  ASSERT_NE(all_kernels()[0], nullptr);
  EXPECT_STREQ(all_kernels()[0]->name, "scalar");
  EXPECT_TRUE(scalar().supported());
}

TEST(Tables, EveryNameIsFoundOnceAndAnUnknownOneIsNot) {
  std::set<std::string> names;
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    EXPECT_TRUE(names.insert((*table)->name).second) << (*table)->name;
    EXPECT_EQ(find_kernels((*table)->name), *table);
  }
  EXPECT_EQ(find_kernels("abacus"), nullptr);
}

// avx512bf16 is the best only where its instruction is faster than fma, which it is on AMD.
TEST(Tables, TheBestTableIsTheLastSupportedCanonicalOneThatIsFastHere) {
  std::vector<const Kernels*> tables = canonical_tables();
  std::erase(tables, emulated_amx());
#if defined(__x86_64__)
  if (!__builtin_cpu_is("amd")) std::erase(tables, find_kernels("avx512bf16"));
#endif
  EXPECT_EQ(&best_kernels(), tables.empty() ? &scalar() : tables.back());
}

// tests/aarch64/run.sh sets the name of the table for the CPU that it emulates.
TEST(Tables, TheBestTableIsTheOneThatTheEnvironmentVariableExpects) {
  const char* const expected = std::getenv("DRAFTPROOF_BEST_KERNELS");
  if (expected == nullptr) GTEST_SKIP() << "DRAFTPROOF_BEST_KERNELS names none";
  EXPECT_STREQ(best_kernels().name, expected);
}

TEST(Tables, EverySupportedCanonicalTablePassesTheSelfTest) {
  EXPECT_STREQ(self_test(scalar()), "");
  for (const Kernels* table : canonical_tables()) EXPECT_STREQ(self_test(*table), "") << table->name;
}

TEST(Tables, AnUnsupportedTableFailsTheSelfTestWithAMessage) {
  Kernels table = scalar();
  table.supported = []() noexcept { return false; };
  EXPECT_NE(std::string(self_test(table)).find("CPU"), std::string::npos);
}

}  // namespace
}  // namespace draftproof::test::tables_test
