// SPDX-License-Identifier: MIT
// Fuzzes the reader and the replay of traces. It damages bytes, which the digest must find; it moves lines and changes
// fields under a correct digest; and it does the same to files of rows. Every outcome must be a verdict, never a crash,
// a hang or another exception.
//
//     fuzz_traces [--seconds N] [--seed N]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>

#include "oracle/spectrace/reader.h"
#include "oracle/spectrace/show.h"
#include "tests/fuzz/damage.h"
#include "tests/fuzz/options.h"
#include "tests/spectrace/float_engine.h"
#include "tests/spectrace/foreign_engine.h"
#include "tests/spectrace/rows.h"
#include "tests/spectrace/support.h"
#include "tests/spectrace/tuned.h"

namespace draftproof::spectrace {
namespace {

Json odd_value(Numbers& numbers) {
  switch (numbers.below(16)) {
    case 0: return nullptr;
    case 1: return true;
    case 2: return -1;
    case 3: return 0;
    case 4: return std::int64_t{1} << 31;
    case 5: return std::int64_t{1} << 52;
    case 6: return std::numeric_limits<std::int64_t>::min();
    case 7: return std::numeric_limits<std::uint64_t>::max();
    case 8: return 1e300;
    case 9: return "0x1p-1074";
    case 10: return std::string(numbers.below(40), 'a');
    case 11: return Json::array();
    case 12: return Json::object();
    case 13: return "nan";
    case 14: return "-inf";
    default: return static_cast<std::int64_t>(numbers.below(8));
  }
}

/// Changes, removes or doubles some value of the line, at any depth.
void change_field(Json& json, Numbers& numbers) {
  Json* place = &json;
  while (place->is_structured() && !place->empty()) {
    auto next = place->begin();
    std::advance(next, static_cast<std::ptrdiff_t>(numbers.below(place->size())));
    if (numbers.below(12) == 0) {
      place->erase(next);
      return;
    }
    if (place->is_array() && numbers.below(12) == 0) {
      const Json twice = *next;
      place->push_back(twice);
      return;
    }
    place = &*next;
    if (numbers.below(8) == 0) break;
  }
  if (place->is_number_integer() && numbers.below(2) == 0) {
    *place = place->get<std::int64_t>() / 2 + static_cast<std::int64_t>(numbers.below(3)) - 1;
  } else {
    *place = odd_value(numbers);
  }
}

void change_lines(std::vector<std::string>& lines, Numbers& numbers) {
  const std::size_t at = numbers.below(lines.size());
  const auto place = lines.begin() + static_cast<std::ptrdiff_t>(at);
  switch (numbers.below(8)) {
    case 0: lines.erase(place); return;
    case 1: lines.insert(place, lines[numbers.below(lines.size())]); return;
    case 2: std::swap(*place, lines[numbers.below(lines.size())]); return;
    default:
      if (Json line = Json::parse(*place, nullptr, false); !line.is_discarded()) {
        change_field(line, numbers);
        *place = line.dump(-1, ' ', false, Json::error_handler_t::replace);
      }
  }
}

/// Returns rounds of tokens only, as an HTTP interface reports them.
std::string tokens_with_logprobs(int vocabulary) {
  Json header = {{"type", "header"},
                 {"schema", "spectrace/2"},
                 {"engine", "e"},
                 {"vocabulary", vocabulary},
                 {"rule", "rejection"},
                 {"temperature", "0x1p+0"},
                 {"top_k", 3},
                 {"sampler_order", {"top_k", "temperature"}},
                 {"prompt", {1}},
                 {"stop_strings", {"END"}},
                 {"stop_token_emitted", false},
                 {"logprobs_of", "p"}};
  std::string text = header.dump() + "\n";
  for (int n = 0; n < 6; ++n) {
    text += Json({{"type", "round"},
                  {"round", n},
                  {"position", 1 + 2 * n},
                  {"emitted", {n % 3, 2}},
                  {"logprobs", {"-0x1p+0", "-0x1p-1"}},
                  {"top_logprobs", {{0, "-0x1p+0", 1, "-0x1p+0"}, {2, "-0x1p-1"}}}})
                .dump() +
            "\n";
  }
  return text + "{\"type\":\"end\",\"reason\":\"stop\"}\n";
}

struct Sample {
  std::string text;
  std::string rows;  // content of the file of rows; empty when there is none
  bool reals = false;
};

std::vector<Sample> samples_of(Recorded& recorded) {
  std::vector<Sample> samples;
  for (const Case& c : cases()) samples.push_back({recorded.text(c), "", false});
  for (const char* rule : {"rejection", "matching"}) samples.push_back({FloatEngine(3).trace(rule, 12), "", true});
  for (const char* rule : {"rejection", "matching", "block", "lossy:typical"}) {
    for (const bool reals : {true, false}) {
      Foreign how;
      how.rule = rule;
      how.reals = reals;
      how.generator = our_generator;
      how.keys = how.grammar_end = how.drafts_dropped = true;
      how.vocabulary = recorded.model().vocabulary();
      how.rounds = 12;
      samples.push_back({ForeignEngine(how, 3).trace(), "", reals});
    }
  }
  samples.push_back({tuned::of_chain(tuned::agrees, rejection).text, "", false});
  const std::size_t without_rows = samples.size();
  for (std::size_t i = 0; i < without_rows; ++i) {
    const Beside beside;
    beside.move_out(samples[i].text);
    samples.push_back({beside.text(), test::text_of(beside.rows), samples[i].reals});
  }
  samples.push_back({tokens_with_logprobs(recorded.model().vocabulary()), "", true});
  return samples;
}

/// Returns the target in its numerics, for an engine of other numerics, or no target.
TraceTarget some_target(Recorded& recorded, Numbers& numbers) {
  TraceTarget target;
  const std::size_t kind = numbers.below(3);
  if (kind == 0) return target;
  target = recorded.target();
  if (kind == 1) return target;
  target.computing_in = [](const std::string&) { return nullptr; };
  target.computing_anyhow = [&] { return std::shared_ptr<Model>(std::shared_ptr<Model>(), &recorded.model()); };
  target.slack = 0.01;
  target.tie = 0.5;
  return target;
}

/// Changes a value of a file of rows, or swaps two lists; the hash is correct.
void change_rows(const std::string& path, bool reals, Numbers& numbers) {
  RowsParts parts(path, reals);
  const auto any = [&] {
    return std::next(parts.arrays.begin(), static_cast<std::ptrdiff_t>(numbers.below(parts.arrays.size())));
  };
  if (numbers.below(8) == 0) {
    std::swap(any()->second, any()->second);
  } else {
    std::visit(
        [&](auto& array) {
          using T = typename std::decay_t<decltype(array.values)>::value_type;
          using Limits = std::numeric_limits<T>;
          const T odd[] = {T(0), T(1), T(-1), Limits::max(), Limits::lowest(), Limits::quiet_NaN(), Limits::infinity()};
          T& value = array.values[numbers.below(array.values.size())];
          if (numbers.below(2) == 0) value = odd[numbers.below(std::size(odd))];
          else value = static_cast<T>(value + static_cast<T>(numbers.below(3)) - T(1));
        },
        any()->second);
  }
  parts.write(path);
}

int fuzz(double seconds, std::uint64_t seed) {
  Recorded recorded;
  const std::vector<Sample> samples = samples_of(recorded);
  const Beside file;
  const auto start = std::chrono::steady_clock::now();
  Numbers numbers(seed);
  unsigned long long rounds = 0;
  unsigned long long of[7] = {};  // by verdict
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
    const auto& [sample, rows, reals] = samples[numbers.below(samples.size())];
    std::string text = sample;
    std::string rows_now = rows;
    const bool by_bytes = numbers.below(3) == 0;
    const bool of_rows = !rows.empty() && numbers.below(2) == 0;
    if (!rows.empty()) test::put(file.rows, rows);
    if (of_rows && by_bytes) {
      damage(rows_now, rows, numbers);
      test::put(file.rows, rows_now);
    } else if (of_rows) {
      change_rows(file.rows, reals, numbers);
      rows_now = test::text_of(file.rows);
    } else if (by_bytes) {
      damage(text, samples[numbers.below(samples.size())].text, numbers);
    } else {
      std::vector<std::string> lines = lines_of(text);
      for (std::size_t times = 1 + numbers.below(2); times-- > 0 && !lines.empty();) change_lines(lines, numbers);
      try {
        text = sealed(lines);
      } catch (const nlohmann::json::exception&) {  // the end is no longer an object
        text = joined(lines);
      }
    }
    file.put(text);
    try {
      const TraceReport held = replay(file.trace, some_target(recorded, numbers));
      ++of[static_cast<std::size_t>(held.verdict())];
      const auto report = make_report(held);
      report_text(report);
      report_json(report);
      report_junit(report);
      report_sarif(report);
      const std::size_t ending = sample.rfind("{\"type\":\"end\"");
      const bool digested = sample.find("\"sha256\":", ending) != std::string::npos;
      const bool changed = text.substr(0, ending) != sample.substr(0, ending);
      const bool passes = held.verdict() == ReportVerdict::pass_exact || held.verdict() == ReportVerdict::pass_stat;
      if (by_bytes && digested && changed && passes) {
        throw std::runtime_error("damaged bytes passed");
      }
      if (of_rows && by_bytes && rows_now != rows && held.verdict() != ReportVerdict::invalid_trace) {
        throw std::runtime_error("damaged rows passed");
      }
      accepted([&] { show(file.trace, {}, [](const std::string&) {}); });
      accepted([&] { compare(file.trace, file.trace); });
    } catch (const std::exception& error) {
      std::printf("round %llu: %s\n%s\n", rounds, error.what(), text.c_str());
      return 1;
    }
    ++rounds;
  }
  std::printf("%llu traces, damaged or changed:", rounds);
  for (int verdict = 0; verdict < 7; ++verdict) {
    std::printf(" %llu %s", of[verdict], name_of(static_cast<ReportVerdict>(verdict)));
  }
  std::printf("\n");
  return of[static_cast<std::size_t>(ReportVerdict::bug_proven)] > 0 &&
                 of[static_cast<std::size_t>(ReportVerdict::invalid_trace)] > 0
             ? 0
             : 1;
}

}  // namespace
}  // namespace draftproof::spectrace

int main(int count, char** arguments) {
  const draftproof::FuzzOptions options = draftproof::read_fuzz_options(count, arguments);
  return draftproof::spectrace::fuzz(options.seconds, options.seed);
}
