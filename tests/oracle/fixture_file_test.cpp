// SPDX-License-Identifier: MIT
#include "oracle/fixtures/fixture_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>

#include "ref/base/require.h"
#include "ref/base/sha256.h"
#include "tests/formats/files.h"
#include "tests/oracle/fixture_parts.h"

namespace draftproof::fixture_file_test {
namespace {

using testing::HasSubstr;

bool same(const Fixture& a, const Fixture& b) {
  return difference(a, b).empty() && a.reason == b.reason && a.generator == b.generator && a.version == b.version;
}

TEST(FixtureFile, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "x.h5";
  write_fixture(file, small_fixture());
  EXPECT_TRUE(same(read_fixture(file), small_fixture()));
  Fixture other = small_fixture();
  other.arrays.erase(other.arrays.begin());  // without rows
  other.execution.verification = Verification::serial;
  other.request.stops.clear();
  other.request.sampling = {.temperature = 0,
                            .top_k = 7,
                            .top_p = 0.5F,
                            .min_p = 0.25F,
                            .repeat_penalty = 2,
                            .presence_penalty = -1,
                            .frequency_penalty = 1,
                            .repeat_last_n = -1};
  write_fixture(file, other);
  EXPECT_TRUE(same(read_fixture(file), other)) << difference(read_fixture(file), other).text();
  EXPECT_FALSE(same(read_fixture(file), small_fixture()));
}

TEST(FixtureFile, HasReproducibleBytesAndAHashOverTheFileWithZerosInItsPlace) {
  const TemporaryFolder folder;
  write_fixture(folder.path() / "x.h5", small_fixture());
  write_fixture(folder.path() / "y.h5", small_fixture());
  std::string bytes = bytes_of_file(folder.path() / "x.h5");
  EXPECT_EQ(bytes, bytes_of_file(folder.path() / "y.h5"));
  const std::string hash = Hdf5::open(folder.path() / "x.h5").read_string_attribute("/", "sha256");
  ASSERT_EQ(hash.size(), 64U);
  bytes.replace(bytes.find(hash), 64, 64, '0');
  Sha256 expected;
  expected.add(bytes);
  EXPECT_EQ(expected.hex(), hash);
}

TEST(FixtureFile, NeedsAReason) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "x.h5";
  Fixture fixture = small_fixture();
  fixture.reason = "";
  EXPECT_THAT(error_of([&] { write_fixture(file, fixture); }), HasSubstr("needs a reason"));
  fixture.reason = std::string(5000, 'x');
  EXPECT_THAT(error_of([&] { write_fixture(file, fixture); }), HasSubstr("longer than 4096"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  // What looks like the attribute with the hash is only a reason.
  fixture.reason = std::string("sha256\0", 7) + std::string(64, '1') + "sha256";
  write_fixture(file, fixture);
  EXPECT_EQ(read_fixture(file).reason, fixture.reason);
}

TEST(FixtureFile, RefusesBiasesWhichItHasNoFieldFor) {
  const TemporaryFolder folder;
  Fixture fixture = small_fixture();
  fixture.request.sampling.logit_bias = {{1, 0.5F}};
  EXPECT_THAT(error_of([&] { write_fixture(folder.path() / "x.h5", fixture); }), HasSubstr("logit_bias"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

struct HostileFile {
  const char* name;
  std::function<void(FixtureParts&)> damage;
  std::vector<std::string> words;
};
void PrintTo(const HostileFile& file, std::ostream* out) { *out << file.name; }

std::function<void(FixtureParts&)> text(const char* path, const char* name, const std::string& value) {
  return [=](FixtureParts& parts) { parts.texts[{path, name}] = value; };
}
std::function<void(FixtureParts&)> no_text(const char* path, const char* name) {
  return [=](FixtureParts& parts) { parts.texts.erase({path, name}); };
}
std::function<void(FixtureParts&)> array(const char* path, const FixtureParts::AnyArray& value) {
  return [=](FixtureParts& parts) { parts.arrays[path] = value; };
}
std::function<void(FixtureParts&)> no_array(const char* path) {
  return [=](FixtureParts& parts) { parts.arrays.erase(path); };
}
template <class T>
FixtureParts::AnyArray one(T value) {
  return Array<T>{{}, {value}};
}
template <class T>
std::function<void(FixtureParts&)> value(const char* path, std::size_t at, T number) {
  return [=](FixtureParts& parts) { std::get<Array<T>>(parts.arrays.at(path)).values.at(at) = number; };
}

class HostileFixture : public testing::TestWithParam<HostileFile> {};

TEST_P(HostileFixture, IsRefusedNamingFileAndField) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "x.h5";
  FixtureParts parts(small_fixture());
  GetParam().damage(parts);
  parts.write(file);
  const std::string message = error_of([&] { read_fixture(file); });
  EXPECT_TRUE(message.starts_with(file.string() + ": ")) << message;
  expect_words(message, {"", "", GetParam().words});
}

constexpr std::int32_t min32 = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t max32 = std::numeric_limits<std::int32_t>::max();

INSTANTIATE_TEST_SUITE_P(
    Cases, HostileFixture,
    testing::Values(
        HostileFile{"schema_missing", no_text("/", "schema"), {"'schema' is missing"}},
        HostileFile{"schema_newer", text("/", "schema", "draftproof.fixture/3"), {"'schema'", "fixture/3'", "/2"}},
        HostileFile{"schema_of_others", text("/", "schema", "keras"), {"'schema' is 'keras'"}},
        HostileFile{"schema_binary", text("/", "schema", "\x01\xff\n"), {"'schema'"}},
        HostileFile{"schema_long", text("/", "schema", std::string(60000, 'x')), {"'schema'", "..."}},
        HostileFile{"generator_missing", no_text("/", "generator"), {"'generator' is missing"}},
        HostileFile{"version_missing", no_text("/", "version"), {"'version' is missing"}},
        HostileFile{"reason_missing", no_text("/", "reason"), {"'reason' is missing"}},
        HostileFile{"target_missing", no_text("/request", "target"), {"'/request'", "'target' is missing"}},
        HostileFile{"target_empty", text("/request", "target", ""), {"'/request'", "'target'", "not a name"}},
        HostileFile{"rule_unknown", text("/request", "rule", "typical"), {"'rule' is 'typical'", "rejection"}},
        HostileFile{"quantize_unknown", text("/request", "quantize", "q2"), {"is 'q2'", "none or f32 or q8"}},
        HostileFile{"kv_unknown", text("/request", "kv", "f64"), {"'kv' is 'f64'"}},
        HostileFile{"verification_unknown", text("/request", "verification", "no"), {"'verification' is 'no'"}},
        HostileFile{"seed_missing", no_array("/request/seed"), {"'/request/seed'"}},
        HostileFile{"seed_negative", array("/request/seed", one<std::int32_t>(-1)), {"'/request/seed'", "fit"}},
        HostileFile{"prompt_missing", no_array("/request/prompt"), {"'/request/prompt'"}},
        HostileFile{"prompt_empty", array("/request/prompt", Array<Token>{{0}, {}}), {"'/request/prompt'", "no token"}},
        HostileFile{"prompt_negative", value<Token>("/request/prompt", 1, -1), {"'/request/prompt' is -1"}},
        HostileFile{"prompt_wide", array("/request/prompt", one<std::uint64_t>(1ULL << 40)), {"'/request/prompt'"}},
        HostileFile{"prompt_fractions", array("/request/prompt", one<double>(0.5)), {"'/request/prompt'", "fit"}},
        HostileFile{"stop_negative", value<Token>("/request/stops", 0, min32), {"'/request/stops'"}},
        HostileFile{"budget_negative", value<Token>("/request/max_new_tokens", 0, -1), {"'/request/max_new_tokens'"}},
        HostileFile{"budgets", array("/request/max_new_tokens", Array<Token>{{2}, {1, 2}}), {"2 values, not one"}},
        HostileFile{"draft_max_huge", value<Token>("/request/draft_max", 0, max32), {"'/request/draft_max'", "1024"}},
        HostileFile{"temperature_nan", value<float>("/request/temperature", 0, NAN), {"'/request/temperature' is nan"}},
        HostileFile{"temperature_below", value<float>("/request/temperature", 0, -1), {"'/request/temperature'"}},
        HostileFile{"top_p_two", value<float>("/request/top_p", 0, 2), {"'/request/top_p'"}},
        HostileFile{"min_p_infinite", value<float>("/request/min_p", 0, INFINITY), {"'/request/min_p' is inf"}},
        HostileFile{"penalty_huge", value<float>("/request/repeat_penalty", 0, 1e30F), {"'/request/repeat_penalty'"}},
        HostileFile{"last_n_negative", value<Token>("/request/repeat_last_n", 0, -2), {"'/request/repeat_last_n'"}},
        HostileFile{"rounds_missing", no_array("/run/rounds"), {"'/run/rounds'"}},
        HostileFile{"rounds_flat", array("/run/rounds", Array<Token>{{12}, std::vector<Token>(12)}), {"[any, 6]"}},
        HostileFile{"rounds_scalar", array("/run/rounds", one<Token>(1)), {"'/run/rounds' has shape []"}},
        HostileFile{"rounds_negative", value<Token>("/run/rounds", 7, -1), {"'/run/rounds'", "round 1"}},
        HostileFile{"rounds_huge", value<Token>("/run/rounds", 5, max32), {"'/run/rows' has shape [4, 3]"}},
        HostileFile{"draft_tokens_fewer", value<Token>("/run/rounds", 1, 3),
                    {"'/run/draft_tokens' has shape [4], not [5]"}},
        HostileFile{"draft_token_negative", value<Token>("/run/draft_tokens", 2, -7), {"'/run/draft_tokens' holds -7"}},
        HostileFile{"logits_fewer", value<Token>("/run/rounds", 2, 3), {"'/run/logits' has shape [4, 2], not [5, 2]"}},
        HostileFile{"logits_missing", no_array("/run/logits"), {"'/run/logits'"}},
        HostileFile{"targets_negative", array("/run/targets", Array<Token>{{4, 2}, std::vector<Token>(8, -1)}),
                    {"'/run/targets'", "fit"}},
        HostileFile{"tokens_missing", no_array("/run/tokens"), {"'/run/tokens'"}},
        HostileFile{"tokens_more", array("/run/tokens", Array<Token>{{5}, std::vector<Token>(5)}), {"'/run/tokens'"}},
        HostileFile{"token_negative", value<Token>("/run/tokens", 0, -1), {"'/run/tokens' holds -1"}},
        HostileFile{"rows_nan", value<float>("/run/rows", 5, NAN), {"'/run/rows'", "not a logit"}},
        HostileFile{"rows_infinite", value<float>("/run/rows", 5, INFINITY), {"'/run/rows'", "not a logit"}},
        HostileFile{"row_of_minus_infinities", array("/run/rows", Array<float>{{4, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8,
                                                                                       -INFINITY, -INFINITY,
                                                                                       -INFINITY}}),
                    {"'/run/rows' has no distribution in row 3"}},
        HostileFile{"row_beyond_its_penalties",
                    [](FixtureParts& parts) {
                      value<float>("/request/repeat_penalty", 0, 0.125F)(parts);
                      value<float>("/run/rows", 4, 3e38F)(parts);
                    },
                    {"'/run/rows' has no distribution in row 1", "+infinity"}},
        HostileFile{"rows_without_width", array("/run/rows", Array<float>{{4, 0}, {}}), {"'/run/rows'", "vocabulary"}},
        HostileFile{"rows_deep", array("/run/rows", Array<float>{{4, 3, 1}, std::vector<float>(12)}), {"[4, 3, 1]"}},
        HostileFile{"finish_unknown", value<Token>("/run/finish", 0, 3), {"'/run/finish' is 3"}},
        HostileFile{"cache_fewer", array("/run/cache", Array<std::uint64_t>{{1, 2}, {1, 2}}), {"'/run/cache'"}},
        HostileFile{"draft_missing", no_array("/run/draft"), {"'/run/draft'"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(HostileBytes, AreRefusedBeforeTheLibrarySeesThem) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes) {
    const auto file = folder.write("x.h5", bytes);
    const std::string message = error_of([&] { read_fixture(file); });
    EXPECT_TRUE(message.starts_with(file.string() + ": ")) << message;
    return message;
  };
  write_fixture(folder.path() / "x.h5", small_fixture());
  const std::string good = bytes_of_file(folder.path() / "x.h5");
  EXPECT_THAT(refused(""), HasSubstr("not an HDF5 file"));
  EXPECT_THAT(refused("{\"schema\": 1}"), HasSubstr("not an HDF5 file"));
  EXPECT_THAT(refused(bytes_of_file(source_dir / "tests/formats/files/h5py.h5")), HasSubstr("'sha256' is missing"));
  EXPECT_THAT(refused(good + "x"), HasSubstr("damaged or edited"));
  EXPECT_THAT(refused(good + good), HasSubstr("damaged or edited"));
  for (std::size_t size = 0; size < good.size(); size += 1 + size / 16) refused(good.substr(0, size));
  for (std::size_t at = 0; at < good.size(); at += 37) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << at % 8);
    refused(bytes);
  }
  EXPECT_THAT(error_of([&] { read_fixture(folder.path()); }), HasSubstr("not a file"));
  EXPECT_THAT(error_of([&] { read_fixture(folder.path() / "no.h5"); }), HasSubstr("no such file"));
}

TEST(HostileBytesSlow, EveryFlippedBitIsFound) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "x.h5";
  write_fixture(file, small_fixture());
  const std::string good = bytes_of_file(file);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    folder.write("x.h5", bytes);
    EXPECT_THAT(error_of([&] { read_fixture(file); }), testing::StartsWith(file.string())) << bit;
  }
}

/// Kills a process again and again while it replaces `file` by one fixture and the other. How often the old or the new
/// one was there, and how often neither was.
struct Kills {
  int first = 0;
  int second = 0;
  int torn = 0;
};
Kills kill_writers(const std::filesystem::path& file, int times, int Kills::*wanted,
                   const std::function<void(const std::filesystem::path&, const Fixture&)>& write) {
  Fixture first = small_fixture();
  Fixture second = small_fixture();
  second.reason = "the other one";
  second.request.prompt = std::vector<Token>(5000, 1);
  write_fixture(file, first);
  Kills kills;
  // On a busy machine there are more tries, each time longer ones: what no writer came to shows nothing.
  for (int time = 0; time < times || (kills.*wanted == 0 && time < 20 * times); ++time) {
    const pid_t child = fork();
    REQUIRE(child >= 0, "a process can be created");  // -1 would be every process, below
    if (child == 0) {
      for (;;) {
        write(file, second);
        write(file, first);
      }
    }
    usleep(static_cast<useconds_t>((500 + 397 * (time % 50)) * (1 + time / times)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    try {
      const Fixture found = read_fixture(file);
      if (same(found, first)) ++kills.first;
      if (same(found, second)) ++kills.second;
    } catch (const Error&) {
      ++kills.torn;
      write_fixture(file, first);
    }
  }
  return kills;
}

void expect_whole(int times) {
  const TemporaryFolder folder;
  const Kills kills = kill_writers(folder.path() / "x.h5", times, &Kills::second, write_fixture);
  EXPECT_EQ(kills.torn, 0);
  EXPECT_GE(kills.first + kills.second, times);
  EXPECT_GT(kills.first, 0);
  EXPECT_GT(kills.second, 0) << "no writer came to its second file";
}

TEST(FixtureFile, IsTheOldOrTheNewFileWheneverItsWriterIsKilled) { expect_whole(60); }
TEST(FixtureFileSlow, IsTheOldOrTheNewFileWheneverItsWriterIsKilled) { expect_whole(300); }
TEST(FixtureFileSweep, IsTheOldOrTheNewFileWheneverItsWriterIsKilled) { expect_whole(1500); }

// In a process of its own: the library has a say once more when it ends.
TEST(FixtureFile, AFailedWriteIsAnErrorAndTheProcessEndsNormally) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "x.h5";
  Fixture fixture = small_fixture();
  fixture.request.prompt = std::vector<Token>(1 << 16, 1);
  for (const rlim_t bytes : {0, 1000, 5000, 100000}) {
    const auto writes = [&] {
      std::signal(SIGXFSZ, SIG_IGN);
      setenv("GCOV_PREFIX", "/dev/null", 1);  // a build for coverage would leave its counters cut short, too
      const rlimit full{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &full);
      std::exit(error_of([&] { write_fixture(file, fixture); }).starts_with(file.string()) ? 7 : 8);
    };
    EXPECT_EXIT(writes(), testing::ExitedWithCode(7), "") << bytes;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

TEST(FixtureFile, TheSameTestFindsATornFileWrittenInPlace) {
  const TemporaryFolder folder;
  const auto in_place = [&](const std::filesystem::path& file, const Fixture& fixture) {
    const auto elsewhere = folder.path() / "whole.h5";
    write_fixture(elsewhere, fixture);
    const std::string bytes = bytes_of_file(elsewhere);
    std::ofstream out(file, std::ios::binary);
    out << bytes.substr(0, bytes.size() / 2) << std::flush;
    usleep(3000);
    out << bytes.substr(bytes.size() / 2);
  };
  EXPECT_GT(kill_writers(folder.path() / "x.h5", 60, &Kills::torn, in_place).torn, 0)
      << "the test above could not fail";
}

}  // namespace
}  // namespace draftproof::fixture_file_test
