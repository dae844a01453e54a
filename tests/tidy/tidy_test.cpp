// SPDX-License-Identifier: MIT
// The source tree against its own rules. Every rule is first shown to see what it is for, and to leave the rest alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>

#include "tests/tidy/rules.h"

namespace draftproof::tidy::tidy_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const fs::path root = DRAFTPROOF_SOURCE_DIR;

/// Every .cpp, .h and .inc of the tree, in order of path.
const std::vector<Source>& tree() {
  static const std::vector<Source> files = [] {
    std::map<std::string, fs::path> paths;
    for (const char* folder : {"kernels", "ref", "oracle", "zoo", "serve", "tools", "python", "bench", "tests"}) {
      for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".cpp" && extension != ".h" && extension != ".inc") continue;
        paths[fs::relative(entry.path(), root).generic_string()] = entry.path();
      }
    }
    std::vector<Source> list;
    for (const auto& [name, path] : paths) list.push_back(parse(name, text_of(path)));
    return list;
  }();
  return files;
}

template <class Rule>
void expect_kept(const Rule& rule) {
  EXPECT_GT(tree().size(), 100U) << "the tree was not found";
  for (const Source& source : tree())
    for (const std::string& fault : rule(source)) ADD_FAILURE() << fault;
}

TEST(Source, CommentsAndLiteralsAreNotCode) {
  const Source source = parse("a.cpp",
                              "int a; // b c\n/* d\n e */ f(\"g \\\" h\", 'i', '\\'', 1'000'000) j;\n"
                              "k R\"x(l\n m)\" n)x\" o;\n#include <p>\n  #  include \"q/r.h\"  // s\n");
  std::string words;
  for (const Word& word : source.words) words += word.text + " ";
  EXPECT_EQ(words, "int a f j k R o ");
  ASSERT_EQ(source.includes.size(), 2U);
  EXPECT_EQ(source.includes[0].target, "p");
  EXPECT_TRUE(source.includes[0].angled);
  EXPECT_EQ(source.includes[1].target, "q/r.h");
  EXPECT_FALSE(source.includes[1].angled);
  EXPECT_EQ(source.includes[1].line, 7);
}

/// A sample, and whether the rule is to find a fault in it.
struct Sample {
  const char* path;
  const char* text;
  const char* fault;  // part of the message; nullptr: none
};

template <class Rule>
void expect_seen(const Rule& rule, const std::vector<Sample>& samples) {
  for (const Sample& sample : samples) {
    const Faults faults = rule(parse(sample.path, sample.text));
    if (sample.fault == nullptr) {
      EXPECT_THAT(faults, IsEmpty()) << sample.path << ": " << sample.text;
    } else {
      EXPECT_THAT(faults, ElementsAre(HasSubstr(sample.fault))) << sample.path << ": " << sample.text;
    }
  }
}

TEST(Layering, SeesEveryForbiddenEdge) {
  expect_seen(
      layering,
      {
          {"kernels/scalar.cpp", "#include \"kernels/exp.h\"\n", nullptr},
          {"kernels/scalar.cpp", "#include \"ref/base/require.h\"\n", "kernels may not know ref/base/require.h"},
          {"ref/base/digest.cpp", "#include \"ref/base/digest.h\"\n", nullptr},
          {"ref/base/digest.cpp", "#include \"kernels/kernels.h\"\n", "ref/base may not know"},
          {"ref/formats/json.cpp", "#include \"ref/base/error.h\"\n", nullptr},
          {"ref/formats/json.cpp", "#include \"ref/text/tokenizer.h\"\n", "ref/formats may not know"},
          {"ref/text/bpe.cpp", "#include \"ref/formats/json.h\"\n", nullptr},
          {"ref/text/bpe.cpp", "#include \"ref/models/model.h\"\n", "ref/text may not know"},
          {"ref/caches/cache.cpp", "#include \"ref/base/digest.h\"\n", nullptr},
          {"ref/caches/attention_cache.h", "#include \"kernels/key_values.h\"\n", nullptr},
          {"ref/caches/recurrent_cache.h", "#include \"kernels/delta_state.h\"\n", nullptr},
          {"ref/caches/cache.cpp", "#include \"kernels/kernels.h\"\n", "ref/caches may not know"},
          {"ref/acceptance/sampler.cpp", "#include \"kernels/exp.h\"\n", nullptr},
          {"ref/acceptance/sampler.cpp", "#include \"kernels/kernels.h\"\n", "ref/acceptance may not know"},
          {"ref/acceptance/rule.h", "#include \"ref/caches/cache.h\"\n", "ref/acceptance may not know"},
          {"ref/models/qwen3.cpp", "#include \"ref/caches/attention_cache.h\"\n", nullptr},
          {"ref/models/qwen3.cpp", "#include \"ref/acceptance/sampler.h\"\n", "ref/models may not know"},
          {"ref/drafts/dflash.cpp", "#include \"ref/models/dflash.h\"\n", nullptr},
          {"ref/drafts/dflash.cpp", "#include \"ref/decoding/trace.h\"\n", "ref/drafts may not know"},
          {"ref/drafts/dflash.cpp", "#include \"kernels/operations.h\"\n", "ref/drafts may not know"},
          {"ref/decoding/decoder.cpp", "#include \"ref/drafts/draft.h\"\n#include \"kernels/math64.h\"\n", nullptr},
          {"ref/decoding/decoder.cpp", "#include \"oracle/checks/check.h\"\n", "ref/decoding may not know"},
          {"oracle/plain/plain.cpp", "#include \"ref/models/model.h\"\n#include \"ref/decoding/trace.h\"\n", nullptr},
          {"oracle/plain/plain.cpp", "#include \"ref/decoding/decoder.h\"\n", "oracle/plain may not know"},
          {"oracle/checks/termination_and_counters.cpp", "#include \"oracle/checks/check.h\"\n", nullptr},
          {"oracle/checks/termination_and_counters.cpp", "#include \"ref/drafts/draft.h\"\n",
           "oracle/checks may not know"},
          {"oracle/checks/check.cpp", "#include \"ref/caches/attention_cache.h\"\n", "oracle/checks may not know"},
          {"oracle/checks/check.cpp", "#include \"ref/models/hash.h\"\n", "oracle/checks may not know"},
          {"oracle/fixtures/fixture_file.cpp", "#include \"ref/formats/hdf5.h\"\n", nullptr},
          {"oracle/fixtures/fixture_file.cpp", "#include \"ref/formats/gguf.h\"\n", "oracle/fixtures may not know"},
          {"oracle/checks/check.cpp", "#include \"kernels/kernels.h\"\n", "oracle/checks may not know"},
          {"oracle/checks/check.cpp", "#include \"zoo/zoo.h\"\n", "oracle/checks may not know"},
          {"zoo/loop.cpp", "#include \"oracle/checks/check.h\"\n#include \"ref/caches/history_cache.h\"\n", nullptr},
          {"zoo/loop.cpp", "#include \"tests/x.h\"\n", "zoo may not know"},
          {"zoo/loop.cpp", "#include \"tools/options.h\"\n", "zoo may not know"},
          {"ref/decoding/decoder.cpp", "#include \"zoo/loop.h\"\n", "ref/decoding may not know"},
          {"tools/main.cpp", "#include \"oracle/report/report.h\"\n#include \"ref/decoding/engine.h\"\n", nullptr},
          {"oracle/checks/check.cpp", "#include \"oracle/exact/enumerate.h\"\n", "oracle/checks may not know"},
          {"oracle/plain/plain.cpp", "#include \"oracle/checks/check.h\"\n", "oracle/plain may not know"},
          {"tools/main.cpp", "#include \"tests/tools/command.h\"\n", "tools may not know"},
          {"ref/base/token.h", "// #include \"ref/models/model.h\"\n#include <vector>\n", nullptr},
          {"ref/base/digest.cpp", "#include \"digest.h\"\n", "ref/base may not know digest.h"},
          {"ref/novelty/thing.h", "", "a folder without a row"},
          {"tests/kernels/scalar_test.cpp", "#include \"support.h\"\n#include \"kernels/scalar.h\"\n", nullptr},
      });
}

TEST(Layering, IsTheTableOfTheDocument) {
  const std::vector<Layer> read = layers_in(
      "| `other/` | `a.h` |\n\n| folder | holds | may include |\n|---|---|---|\n"
      "| `a/` | `b` | nothing |\n| `a/b/` | the `c` | `a/` `d/e.h` |\n\n"
      "| `f/` | g | `h/` |\n");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].folder, "a");
  EXPECT_THAT(read[0].may_include, IsEmpty());
  EXPECT_EQ(read[1].folder, "a/b");
  EXPECT_THAT(read[1].may_include, ElementsAre("a/", "d/e.h"));
  EXPECT_GT(layers().size(), 20U);
}

TEST(Layering, IsKept) { expect_kept(layering); }

TEST(ThirdParty, SeesALibraryOutsideItsHome) {
  expect_seen(
      third_party,
      {
          {"ref/formats/json.cpp", "#include <nlohmann/json.hpp>\n#include <hdf5.h>\n", nullptr},
          {"oracle/report/json.cpp", "#include <nlohmann/json.hpp>\n", nullptr},
          {"oracle/checks/check.cpp", "#include <nlohmann/json.hpp>\n", "<nlohmann/json.hpp> belongs in ref/formats/"},
          {"ref/models/qwen3.cpp", "#include <hdf5.h>\n", "belongs in ref/formats/"},
          {"ref/text/pattern.cpp", "#include <pcre2.h>\n#include <unicode/uchar.h>\n", nullptr},
          {"ref/formats/json.cpp", "#include <pcre2.h>\n", "belongs in ref/text/"},
          {"tools/main.cpp", "#include <unicode/uchar.h>\n", "belongs in ref/text/"},
          {"kernels/openblas.cpp", "#include <cblas.h>\n#include <dlfcn.h>\n", nullptr},
          {"kernels/scalar.cpp", "#include <cblas.h>\n", "belongs in kernels/openblas.cpp"},
          {"tools/main.cpp", "#include <dlfcn.h>\n", "belongs in kernels/openblas.cpp"},
          {"kernels/scalar.cpp", "#include <Eigen/Dense>\n", "belongs in oracle/twin/"},
          {"tests/kernels/scalar_test.cpp", "#include <Eigen/Dense>\n#include <boost/rational.hpp>\n", nullptr},
          {"oracle/exact/enumerate.h", "#include <boost/multiprecision/gmp.hpp>\n", nullptr},
          {"ref/acceptance/rule.h", "#include <boost/rational.hpp>\n", "belongs in oracle/"},
          {"oracle/matchers.h", "#include <gmock/gmock.h>\n", nullptr},
          {"oracle/checks/check.h", "#include <gmock/gmock.h>\n", "belongs in oracle/matchers.h"},
          {"tools/command_line.cpp", "#include <CLI/CLI.hpp>\n", nullptr},
          {"tools/main.cpp", "#include <CLI/CLI.hpp>\n", "belongs in tools/command_line.cpp"},
          {"kernels/threads.cpp", "#include <omp.h>\n", nullptr},
          {"kernels/operations.cpp", "#include <omp.h>\n", "belongs in kernels/threads.cpp"},
          {"kernels/scalar.cpp", "#include <immintrin.h>\n", "belongs in kernels/lanes_"},
          {"kernels/scalar.cpp", "#include <arm_neon.h>\n", "belongs in kernels/lanes_"},
          {"kernels/lanes_neon.h", "#include <arm_neon.h>\n", nullptr},
          {"ref/caches/cache.cpp", "#include <xxhash.h>\n", "belongs in ref/base/"},
      });
}

TEST(ThirdParty, IsAtHome) { expect_kept(third_party); }

TEST(Determinism, SeesEveryBan) {
  expect_seen(
      determinism,
      {
          {"ref/models/qwen3.cpp", "float y = std::exp(x);\n", "exp: libm picks another variant"},
          {"ref/models/qwen3.cpp", "float y = expf (x);\n", "use kernels/exp.h"},
          {"ref/models/qwen3.cpp", "double y = std::pow(2, x);\n", "pow: libm"},
          {"ref/decoding/decoder.cpp", "double y = log(x);\n", "log: libm"},
          {"oracle/checks/check.cpp", "double y = ::tanh(x);\n", "tanh: libm"},
          {"ref/models/qwen3.cpp", "float y = exp64(x) + sqrt(x); int exp; /* exp(x) */ auto s = \"sin(x)\";\n",
           nullptr},
          {"ref/models/qwen3.cpp", "float y = table.exp(x) + row->log(x);\n", nullptr},
          {"kernels/math64.cpp", "double y = cos(x);\n", nullptr},
          {"tests/kernels/exp_test.cpp", "double y = std::exp(x);\n", nullptr},
          {"ref/models/qwen3.cpp", "float y = std::reduce(a, b);\n", "reduce: its order is unspecified"},
          {"tests/models/qwen3_test.cpp", "float y = std::transform_reduce(a, b, c);\n", "transform_reduce"},
          {"kernels/threads.cpp", "#pragma omp parallel for\n", nullptr},
          {"kernels/scalar.cpp", "#pragma omp parallel for\n", "use parallel_ranges"},
          {"kernels/threads.cpp", "#pragma omp parallel for reduction(+ : x)\n", "reduction: a float reduction"},
          {"ref/acceptance/random_source.cpp", "#include <random>\n", "<random> differs by library"},
          {"ref/acceptance/random_source.cpp", "int x = rand();\n", "rand: random answers come from"},
          {"oracle/checks/check.cpp", "srand(1);\n", "srand: random answers come from"},
          {"oracle/checks/check.cpp", "std::mt19937 g;\n", "mt19937: random answers"},
          {"tests/caches/cache_test.cpp", "#include <random>\nstd::mt19937 g;\n", nullptr},
          {"ref/models/models.cpp", "std::unordered_map<int, int> m;\n", "unordered_map: its order is the library's"},
          {"oracle/checks/check.cpp", "std::unordered_set<int> m;\n", "unordered_set: its order"},
          {"ref/text/bpe.cpp", "std::unordered_map<int, int> m;\n", nullptr},
          {"tools/grow.cpp", "if (std::filesystem::exists(file)) copy(file);\n", "exists: a link to nothing"},
          {"kernels/operations.cpp", "thread_local int x;\n", "thread_local: results would depend"},
          {"ref/drafts/model_draft.cpp", "auto t = std::chrono::steady_clock::now();\n", "clocks are for statistics"},
          {"ref/base/stopwatch.h", "auto t = std::chrono::steady_clock::now();\n", nullptr},
          {"tools/verify.cpp", "auto t = std::chrono::steady_clock::now();\n", nullptr},
      });
}

TEST(Determinism, IsKept) { expect_kept(determinism); }

TEST(ExactArithmetic, SeesTheFlagsThatWouldBreakIt) {
  expect_seen(exact_arithmetic,
              {
                  {"CMakeLists.txt",
                   "add_compile_options(-ff"
                   "ast-math)\n",
                   "write the operations you mean"},
                  {"CMakeLists.txt",
                   "add_compile_options(-O"
                   "fast)\n",
                   "write the operations you mean"},
                  {"CMakeLists.txt",
                   "add_compile_options(-ffp-contract="
                   "fast)\n",
                   "write the operations you mean"},
                  {"kernels/scalar.cpp",
                   "#pragma GCC optimize \"-ff"
                   "ast-math\"\n",
                   "write the operations you mean"},
                  {"CMakeLists.txt", "add_compile_options(-O3 -ffp-contract=off)  # no fast-math\n", nullptr},
              });
}

TEST(ExactArithmetic, IsKeptByTheSourcesAndByWhatBuildsThem) {
  expect_kept(exact_arithmetic);
  const std::vector<const char*> files = {"CMakeLists.txt", "CMakePresets.json", "Makefile", "tests/CMakeLists.txt"};
  for (const char* file : files) {
    const std::string text = text_of(root / file);
    EXPECT_FALSE(text.empty()) << file;
    for (const std::string& fault : exact_arithmetic(parse(file, text))) ADD_FAILURE() << fault;
  }
  EXPECT_THAT(text_of(root / "CMakeLists.txt"), HasSubstr("-ffp-contract=off"));
}

TEST(HashedContainers, SeesAWalkOverOne) {
  const Source declares = parse("ref/text/a.h",
                                "std::unordered_map<std::string, Token> vocabulary;  // by content\n"
                                "std::unordered_set<std::string> seen_{};\nstd::map<int, int> ok;\n");
  const std::set<std::string> names = hashed_names(declares);
  EXPECT_THAT(names, ElementsAre("seen_", "vocabulary"));
  const auto rule = [&](const Source& source) { return never_iterated(source, names); };
  expect_seen(rule, {
                        {"ref/text/a.cpp", "for (const auto& [text, id] : parts.vocabulary) use(id);\n",
                         "vocabulary is hashed"},
                        {"ref/text/a.cpp", "auto it = seen_.begin();\n", "seen_ is hashed"},
                        {"ref/text/a.cpp", "if (seen_.find(x) != seen_.end()) use(vocabulary.at(x));\n", nullptr},
                        {"ref/text/a.cpp", "for (const auto& x : ok) use(vocabulary.at(x));\n", nullptr},
                    });
}

TEST(HashedContainers, AreNeverWalked) {
  std::set<std::string> names;
  for (const Source& source : tree()) {
    if (source.path.starts_with("ref/text/")) names.merge(hashed_names(source));
  }
  EXPECT_FALSE(names.empty());
  for (const Source& source : tree()) {
    if (!source.path.starts_with("ref/text/")) continue;
    for (const std::string& fault : never_iterated(source, names)) ADD_FAILURE() << fault;
  }
}

TEST(Loops, OverAPartOfATemporaryAreSeen) {
  expect_seen(loops_over_what_lives,
              {
                  {"tests/a.cpp", "for (const json& x : json::parse(out)[\"a\"]) use(x);\n", "give it a name"},
                  {"tests/a.cpp", "for (const std::string& x : json::parse(run({1}).out).at(\"a\")) use(x);\n",
                   "give it a name"},
                  {"tests/a.cpp", "for (const json& x : json::parse(out)) use(f(x)[1]);\n", nullptr},
                  {"tests/a.cpp", "for (const json& x : said[\"a\"]) use(json::parse(x)[\"b\"]);\n", nullptr},
              });
}

TEST(Loops, RunOverWhatLives) { expect_kept(loops_over_what_lives); }

TEST(Form, SeesAMissingLicenceALongLineAndAPromise) {
  const std::string spdx = "// SPDX-License-Identifier: MIT\n";
  const auto faults_of = [](const char* path, const std::string& text) { return form(parse(path, text)); };
  EXPECT_THAT(faults_of("a.cpp", spdx + "int x;\n"), IsEmpty());
  EXPECT_THAT(faults_of("a.cpp", "int x;\n"), ElementsAre(HasSubstr("SPDX")));
  EXPECT_THAT(faults_of("a.cpp", ""), ElementsAre(HasSubstr("SPDX")));
  EXPECT_THAT(faults_of("a.cpp", "\n" + spdx), ElementsAre(HasSubstr("SPDX")));
  EXPECT_THAT(faults_of("a.h", spdx + "int x;\n"), ElementsAre(HasSubstr("#pragma once")));
  EXPECT_THAT(faults_of("a.h", spdx + "#pragma once\n"), IsEmpty());
  EXPECT_THAT(faults_of("a.cpp", spdx + std::string(121, 'x') + "\n"), ElementsAre(HasSubstr("a.cpp:2: 121 columns")));
  EXPECT_THAT(faults_of("a.cpp", spdx + std::string(120, 'x') + "\n"), IsEmpty());
  std::string accents = "//";
  for (int i = 0; i < 118; ++i) accents += "\xc3\xa9";
  EXPECT_THAT(faults_of("a.cpp", spdx + accents + "\n"), IsEmpty()) << "columns, not bytes";
  EXPECT_THAT(faults_of("a.cpp", spdx + "// TO"
                                        "DO: later\n"),
              ElementsAre(HasSubstr("do it now")));
  EXPECT_THAT(faults_of("a.cpp", spdx + "// FIX"
                                        "ME\n"),
              ElementsAre(HasSubstr("do it now")));
}

TEST(Form, IsKept) { expect_kept(form); }

/// Files of the repository beside its folders: what was downloaded there is not to be added with the rest.
std::vector<std::string> strangers(const std::vector<std::string>& names) {
  static const std::set<std::string> known = {"CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md",
                                              "LICENSE",      "Makefile",       "README.md",         "SECURITY.md"};
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (!name.starts_with(".") && !known.contains(name)) found.push_back(name + " is no file of the top level");
  }
  return found;
}

TEST(TopLevel, SeesAStranger) {
  EXPECT_THAT(strangers({"README.md", ".gitignore", "numpy.whl"}), ElementsAre(HasSubstr("numpy.whl")));
}

/// What `git ls-files` prints with these arguments, by line; nothing where there is no repository.
std::vector<std::string> listed(const std::string& arguments) {
  const std::string command = "git -c safe.directory='*' -C '" + root.string() + "' ls-files " + arguments;
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  std::vector<std::string> lines;
  char line[4096];
  while (output && std::fgets(line, sizeof line, output.get())) {
    lines.emplace_back(line);
    lines.back().pop_back();
  }
  return lines;
}

TEST(TopLevel, HasNone) {
  if (!fs::exists(root / ".git")) GTEST_SKIP() << "no repository, so nothing says which files are of it";
  const std::vector<std::string> names = listed("':(top,glob)*'");
  EXPECT_GE(names.size(), 8U) << "git does not list the tree";
  EXPECT_THAT(strangers(names), IsEmpty());
}

/// Scripts that name their interpreter and cannot be started by their name, of lines as `ls-files --stage` prints them:
/// mode, hash, stage, tabulator, path.
template <class TextOf>
std::vector<std::string> scripts_not_executable(const std::vector<std::string>& lines, const TextOf& text) {
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    const std::string path = line.substr(line.find('\t') + 1);
    if (line.starts_with("100644") && text(path).starts_with("#!")) found.push_back(path + ": chmod +x");
  }
  return found;
}

TEST(Scripts, SeesOneThatCannotBeStarted) {
  const std::vector<std::string> lines = {"100644 1 0\ta.py", "100755 1 0\tb.py", "100644 1 0\tdata"};
  const auto text = [](const std::string& path) { return std::string(path == "data" ? "1\n" : "#!/bin/sh\n"); };
  EXPECT_THAT(scripts_not_executable(lines, text), ElementsAre("a.py: chmod +x"));
}

TEST(Scripts, CanBeStarted) {
  if (!fs::exists(root / ".git")) GTEST_SKIP() << "no repository, so nothing says which files are of it";
  const std::vector<std::string> lines = listed("--stage");
  EXPECT_GE(lines.size(), 1000U) << "git does not list the tree";
  const auto beginning = [](const std::string& path) {
    std::string two(2, ' ');
    std::ifstream(root / path, std::ios::binary).read(two.data(), 2);
    return two;
  };
  EXPECT_THAT(scripts_not_executable(lines, beginning), IsEmpty());
}

TEST(PlainWords, SeesPrivateWordsAndBritishSpelling) {
  expect_seen(plain_words,
              {
                  {"ref/a.h", "int guess = 0;\n", "'guess': write draft token"},
                  {"ref/a.h", "// what was guessed\n", "'guessed': write draft token"},
                  {"ref/a.h", "struct DraftGuess {};\n", "'guess': write draft token"},
                  {"ref/a.h", "int all_stood;\n", "'stood': write accepted"},
                  {"docs/a.md", "The law of the text is equal.\n", "'law': write distribution"},
                  {"docs/a.md", "The row law and the causal law; the two laws.\n", nullptr},
                  {"docs/a.md", "a flaw; a lawn; understood\n", nullptr},
                  {"docs/a.md", "quantised\n", "'quantised': write quantiz"},
                  {"docs/a.md", "Draft tokens are accepted or rejected; quantized, normalized.\n", nullptr},
              });
}

TEST(PlainWords, AreKeptBySourcesAndDocuments) {
  expect_kept(plain_words);
  std::vector<fs::path> files = {root / "README.md", root / "Makefile", root / "CMakeLists.txt"};
  for (const char* folder : {"docs", "bench", "cmake"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  EXPECT_GT(files.size(), 10U);
  for (const fs::path& file : files) {
    const std::string name = fs::relative(file, root).generic_string();
    for (const std::string& fault : plain_words(parse(name, text_of(file)))) ADD_FAILURE() << fault;
  }
}

TEST(PlainNames, SeesPrivateWordsInNamesAndLeavesProseAlone) {
  expect_seen(
      plain_names,
      {
          {"ref/a.h", "struct Question {};\n", "'Question': write request"},
          {"ref/a.h", "int least_rows;\n", "'least_rows': write min"},
          {"ref/a.h", "int most;  // at most so many\n", "'most': write max"},
          {"ref/a.h", "milliseconds read_patience;\n", "'read_patience': write timeout"},
          {"ref/a.h", "// otherwise, the most of it\nconst char* at_least = \"most\"; int most_probable, almost;\n",
           nullptr},
          {"tests/ref/a_test.cpp", "TEST(A, DrawsTheMostProbableTokenAndOtherwiseNone) {}\n", nullptr},
      });
}

TEST(PlainNames, AreKept) { expect_kept(plain_names); }

TEST(Unreferenced, SeesADeadFunctionAndADeadHeader) {
  const auto faults_of = [](const std::string& header, const std::string& source) {
    return unreferenced({parse("ref/a.h", header), parse("ref/a.cpp", "#include \"ref/a.h\"\n" + source)});
  };
  EXPECT_THAT(faults_of("int dead();\n", "int dead() {\n  return 1;\n}\n"),
              ElementsAre(HasSubstr("a.h:1: dead is called")));
  EXPECT_THAT(faults_of("int used();\n", "int used() { return 1; }\nint x = used();\n"), IsEmpty());
  EXPECT_THAT(faults_of("struct A {\n  std::vector<int> dead() const;\n};\n", "std::vector<int> A::dead() const {}\n"),
              ElementsAre(HasSubstr("a.h:2: dead is called")));
  EXPECT_THAT(
      faults_of("struct A {\n  int used() const;\n};\n", "int A::used() const {}\nint f(A a) { return a.used(); }\n"),
      IsEmpty());
  EXPECT_THAT(faults_of("int passed();\n", "int passed() {}\nauto* p = passed;\n"), IsEmpty())
      << "not called, but used";
  EXPECT_THAT(faults_of("struct A : Theirs {\n  int called_by_them() override;\n};\n", ""), IsEmpty());
  EXPECT_THAT(unreferenced({parse("ref/b.h", "int x;\n")}), ElementsAre(HasSubstr("ref/b.h:1: is included nowhere")));
}

TEST(Unreferenced, NothingIs) {
  for (const std::string& fault : unreferenced(tree())) ADD_FAILURE() << fault;
}

TEST(AmbiguousTypes, SeesTwoMeaningsOfOneName) {
  const auto faults_of = [](const char* other, const std::string& text) {
    return ambiguous_types({parse("ref/a.h", "struct Row {\n  struct Part {};\n};\n"), parse(other, text)});
  };
  EXPECT_THAT(faults_of("zoo/b.cpp", "class Row final : public Base {\n"),
              ElementsAre(HasSubstr("zoo/b.cpp:1: the type Row")));
  EXPECT_THAT(faults_of("zoo/b.cpp", "class Row;\nstruct Part {\n};\n"), IsEmpty()) << "a declaration; a nested type";
  EXPECT_THAT(faults_of("tests/b_test.cpp", "struct Row {\n"), IsEmpty());
}

TEST(AmbiguousTypes, NoneAreLeft) {
  for (const std::string& fault : ambiguous_types(tree())) ADD_FAILURE() << fault;
}

TEST(InstructionSets, SeesWhatTheLinkerCouldKeep) {
  expect_seen(
      nothing_with_linkage,
      {
          {"kernels/avx2.cpp", "#include \"kernels/tables.h\"\n#include \"kernels/vector.inc\"\n", nullptr},
          {"kernels/avx512.cpp", "#include \"kernels/lanes_avx512.h\"\n#include <cstdint>\nstd::size_t x;\n", nullptr},
          {"kernels/lanes_avx2.h", "#include <immintrin.h>\n", nullptr},
          {"kernels/neon.cpp", "#include \"kernels/lanes_neon.h\"\n#include <arm_neon.h>\n", nullptr},
          {"kernels/lanes_neon.h", "#include <vector>\n", "vector may bring functions with linkage"},
          {"kernels/vector.inc", "#include <algorithm>\n", "algorithm may bring"},
          {"kernels/vector.inc", "#include <cmath>\n", "cmath may bring"},
          {"kernels/avx2.cpp", "#include \"kernels/operations.h\"\n", "kernels/operations.h may bring"},
          {"kernels/vector.inc", "float m = std::max(a, b);\n", "std::max has linkage"},
          {"kernels/tables.h", "#include <string>\n", "string may bring"},
          {"kernels/scalar.cpp", "#include <algorithm>\nfloat m = std::max(a, b);\n", nullptr},
      });
}

TEST(InstructionSets, HoldNothingTheLinkerCouldKeep) {
  expect_kept(nothing_with_linkage);
  for (const char* path : {"kernels/avx2.cpp", "kernels/avx512.cpp", "kernels/neon.cpp", "kernels/vector.inc"}) {
    EXPECT_TRUE(fs::exists(root / path)) << path;
  }
}

/// Folders of the tree without tests: "ref/base" has them in tests/base, "oracle/checks" in tests/checks or
/// tests/oracle.
template <class HasTests>
std::vector<std::string> untested(const std::set<std::string>& folders, const HasTests& has_tests) {
  std::vector<std::string> list;
  for (const std::string& folder : folders) {
    const bool own = has_tests("tests/" + folder.substr(folder.rfind('/') + 1));
    if (!own && !has_tests("tests/" + folder.substr(0, folder.find('/')))) list.push_back(folder);
  }
  return list;
}

TEST(Tests, SeesAFolderWithoutAny) {
  const auto some = [](const std::string& folder) { return folder == "tests/base" || folder == "tests/kernels"; };
  EXPECT_THAT(untested({"kernels", "ref/base"}, some), IsEmpty());
  EXPECT_THAT(untested({"kernels", "kernels/more", "ref/base", "ref/novelty"}, some), ElementsAre("ref/novelty"));
}

TEST(Tests, MirrorEveryFolderOfTheSource) {
  std::set<std::string> folders;
  for (const Source& source : tree()) {
    const std::string folder = folder_of(source.path);
    if (!folder.starts_with("tests") && !folder.starts_with("bench")) folders.insert(folder);
  }
  EXPECT_GT(folders.size(), 9U);
  const auto has_tests = [](const std::string& folder) {
    if (fs::exists(root / folder / "test_package.py")) return true;  // those of a package, in its language
    return std::any_of(tree().begin(), tree().end(), [&](const Source& source) {
      return source.path.starts_with(folder + "/") && source.path.ends_with("_test.cpp");
    });
  };
  EXPECT_THAT(untested(folders, has_tests), IsEmpty());
}

/// Names of tests as documents write them, `Suite.Name`.
std::set<std::string> tests_named_in(const std::string& text) {
  static const std::regex name("`([A-Z][A-Za-z0-9]*\\.[A-Z][A-Za-z0-9]*)`");
  std::set<std::string> names;
  for (std::sregex_iterator found(text.begin(), text.end(), name), end; found != end; ++found)
    names.insert((*found)[1]);
  return names;
}

std::set<std::string> tests_of(const Source& source) {
  static const std::regex head("^TEST(?:_F|_P)?\\(([A-Za-z0-9]+), ([A-Za-z0-9]+)\\)");
  std::set<std::string> names;
  for (const std::string& line : source.lines) {
    std::smatch found;
    if (std::regex_search(line, found, head)) names.insert(found.str(1) + "." + found.str(2));
  }
  return names;
}

/// A number as sources and documents write it: 9999, 100'000, std::size_t{1} << 20, std::chrono::seconds(10), 64 KiB.
std::int64_t number_in(std::string text) {
  std::erase(text, '\'');
  static const std::regex shift("(\\d+)\\)?\\}?\\)? << (\\d+)");
  static const std::regex unit("^(\\d+)( [KMG]iB)?$");
  static const std::regex any("(?:^|[({])(\\d+)");
  std::smatch found;
  if (std::regex_search(text, found, shift)) return std::stoll(found[1]) << std::stoi(found[2]);
  if (std::regex_match(text, found, unit)) {
    const std::size_t power = std::string("KMG").find(found[2].matched ? found.str(2)[1] : 'x');
    return std::stoll(found[1]) << (power == std::string::npos ? 0 : 10 * (power + 1));
  }
  return std::regex_search(text, found, any) ? std::stoll(found[1]) : -1;
}

/// Rows `| ... | value | `file` `constant` | ...` of a document that state another value than the file.
Faults limits(const std::string& document, const std::function<std::string(const std::string&)>& text_of_file) {
  static const std::regex row("^\\|[^|]*\\| ([^|]*) \\| `([a-z0-9_/]+\\.(?:h|cpp))` `([a-z_]+)` \\|");
  Faults faults;
  for (const std::string& line : lines_of(document)) {
    std::smatch found;
    if (!std::regex_search(line, found, row)) continue;
    const std::regex constant("\\b" + found.str(3) + " = ([^;]*);");
    const std::string text = text_of_file(found.str(2));
    std::smatch defined;
    if (!std::regex_search(text, defined, constant)) {
      faults.push_back(found.str(2) + " has no " + found.str(3));
    } else if (number_in(defined.str(1)) != number_in(found.str(1))) {
      faults.push_back(found.str(2) + ": " + found.str(3) + " is " + defined.str(1) + ", not " + found.str(1));
    }
  }
  return faults;
}

TEST(Security, SeesALimitOfAnotherValueAndATestThatIsNone) {
  const auto text = [](const std::string& file) {
    return file == "a/b.h" ? "constexpr std::size_t bytes_max = std::size_t{1} << 20;\nint n_max = 100'000;\n"
                             "milliseconds wait = std::chrono::seconds(10);\n"
                           : "";
  };
  const auto faults = [&](const std::string& value, const std::string& constant) {
    return limits("| x | " + value + " | `a/b.h` `" + constant + "` | `A.B` |\n", text);
  };
  EXPECT_THAT(faults("1 MiB", "bytes_max"), IsEmpty());
  EXPECT_THAT(faults("1048576", "bytes_max"), IsEmpty());
  EXPECT_THAT(faults("100000", "n_max"), IsEmpty());
  EXPECT_THAT(faults("10", "wait"), IsEmpty());
  EXPECT_THAT(faults("2 MiB", "bytes_max"), ElementsAre(HasSubstr("bytes_max is")));
  EXPECT_THAT(faults("11", "wait"), ElementsAre(HasSubstr("wait is")));
  EXPECT_THAT(faults("1", "other"), ElementsAre("a/b.h has no other"));
  EXPECT_THAT(tests_named_in("`A.B` a.B `C.D`, `e.F`"), ElementsAre("A.B", "C.D"));
  EXPECT_THAT(tests_of(parse("tests/x_test.cpp", "TEST(A, B) {\nTEST_P(C, D) {\n  TEST(E, F)\n")),
              ElementsAre("A.B", "C.D"));
}

TEST(Security, IsAsItsDocumentSays) {
  const std::string document = text_of(root / "docs/security.md");
  for (const std::string& fault : limits(document, [](const std::string& file) { return text_of(root / file); })) {
    ADD_FAILURE() << fault;
  }
  std::set<std::string> tests;
  for (const Source& source : tree()) tests.merge(tests_of(source));
  EXPECT_GT(tests_named_in(document).size(), 50U);
  for (const std::string& name : tests_named_in(document)) EXPECT_TRUE(tests.contains(name)) << name;
}

}  // namespace
}  // namespace draftproof::tidy::tidy_test
