// SPDX-License-Identifier: MIT
// Linked into a test program whose sources have mutants. MUTANT names the one that runs. With MUTANTS_REACHED, a file,
// a line says of each test what processor time it took and which mutants it reached; the first line, of what ran before
// the tests, has the name "*".
#include "tests/mutants/runtime.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace draftproof::mutants {

constexpr int mutants_max = 1 << 16;
int chosen = 0;
bool recording = false;

namespace {

unsigned char reached[mutants_max];

class Recorder : public testing::EmptyTestEventListener {
 public:
  explicit Recorder(const char* file) : file_(std::fopen(file, "w")) {}
  ~Recorder() override { std::fclose(file_); }

  void OnTestProgramStart(const testing::UnitTest&) override { write("*"); }
  void OnTestStart(const testing::TestInfo&) override {
    std::memset(reached, 0, sizeof(reached));
    began_ = std::clock();
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    write(std::string(test.test_suite_name()) + "." + test.name());
  }

 private:
  void write(const std::string& name) {
    std::fprintf(file_, "%s %f", name.c_str(), static_cast<double>(std::clock() - began_) / CLOCKS_PER_SEC);
    for (int id = 0; id < mutants_max; ++id)
      if (reached[id] != 0) std::fprintf(file_, " %d", id);
    std::fputc('\n', file_);
    std::fflush(file_);
  }

  std::FILE* file_;
  std::clock_t began_ = 0;
};

// Before anything else of the program is initialized.
__attribute__((constructor(101))) void choose() {
  if (const char* id = std::getenv("MUTANT")) chosen = std::atoi(id);
  recording = std::getenv("MUTANTS_REACHED") != nullptr;
}

const bool recorder_added = [] {
  if (const char* file = std::getenv("MUTANTS_REACHED"))
    testing::UnitTest::GetInstance()->listeners().Append(new Recorder(file));
  return true;
}();

}  // namespace

void reach(int id) noexcept { reached[id] = 1; }

}  // namespace draftproof::mutants
