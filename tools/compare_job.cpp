// SPDX-License-Identifier: MIT
#include "tools/compare_job.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <sstream>
#include <utility>

#include "kernels/threads.h"
#include "oracle/plain/plain.h"
#include "oracle/spectrace/nearby_distribution.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "ref/formats/json.h"
#include "ref/models/models.h"
#include "tools/replay_job.h"
#include "tools/text_trace.h"

namespace draftproof {
namespace {

constexpr std::array<const char*, 12> prompts_of_our_own = {
    "Once upon a time there lived in a village by the sea a young potter. One morning she",
    "The fox ran to the old oak. The owl sat on the old oak. The fox ran to the old oak. The owl",
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "1. Apples\n2. Bread\n3. Cheese\n4.",
    "{\"name\": \"Anna\", \"age\": 31, \"city\": \"",
    "Long ago, near the mill, there lived a shepherd, and his friend was named",
    "To be or not to be, that is the",
    "Dear Sir or Madam,\n\nI am writing to",
    "The three colors of the flag are red, white and",
    "One two three four five six seven eight",
    "In the morning the old king called his daughter and said:",
};

/// A folder that is removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "draftproof-compare-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw Error(name + " cannot be made; set TMPDIR to a folder that can be written");
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

std::string write_trace(const std::filesystem::path& folder, const char* name, const TextTrace& about,
                        const std::vector<WrittenText>& texts) {
  const std::string file = (folder / name).string();
  OutputFile output(file, {});
  output.write(text_trace(about, texts));
  return file;
}

/// Tests the sampled texts against the target, and grants what those of plain decoding show of the engine's numerics.
void add_distribution(const CompareJob& job, const std::string& plain, const std::string& speculative, Report& report) {
  ReplayJob replay;
  replay.file = speculative;
  replay.target = job.target;
  replay.load_options.kernels = job.kernels;
  replay.slack_auto = true;
  replay.control = plain;
  replay.threads = job.threads;
  replay.quiet = true;
  Report tested;
  try {
    tested = spectrace::make_report(replayed(replay));
  } catch (const Error& wrong) {  // the plain engine does not follow the target either, or wrote too little
    report.unproved.push_back(fmt::format("the distribution of {}: {}", job.target, wrong.what()));
    return;
  }
  for (Finding& finding : tested.findings) {
    if (finding.outcome != Outcome::fail) continue;
    finding.check = "target_" + finding.check;
    report.findings.insert(report.findings.begin(), std::move(finding));
  }
  report.token_tests = std::move(tested.token_tests);
  for (Bets& bets : tested.bets) report.bets.push_back(std::move(bets));
  for (const auto& [name, value] : tested.about) {
    if (name == "slack granted") report.about.emplace_back(name, value);
  }
  report.about.emplace_back("distribution of the target", name_of(tested.verdict));
  if (tested.verdict == ReportVerdict::bug_proven) report.verdict = ReportVerdict::bug_proven;
  if (tested.verdict == ReportVerdict::bug_stat && report.verdict != ReportVerdict::bug_proven) {
    report.verdict = ReportVerdict::bug_stat;
  }
}

}  // namespace

std::span<const char* const> built_in_prompts() { return prompts_of_our_own; }

std::vector<EnginePrompt> read_prompt_lines(const std::string& file) {
  std::vector<EnginePrompt> prompts;
  std::istringstream lines(read_text_file(file));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    EnginePrompt prompt;
    if (line.front() == '[') {
      for (const std::int64_t token :
           Json::parse(line, fmt::format("{}:{}", file, number)).integers(0, std::numeric_limits<Token>::max())) {
        prompt.tokens.push_back(static_cast<Token>(token));
      }
    } else {
      prompt.text = std::move(line);
    }
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) throw Error(file + " has no prompts; write one into each line");
  return prompts;
}

CompareTarget::CompareTarget(const CompareJob& job)
    : opened_({job.target, {job.kernels, "f32", "f32"}, {.number = job.threads, .max = threads_max}, job.quiet}),
      target_(&opened_.load({}, request_of_size(1, 1)).target()),
      stops_(read_stop_tokens(opened_.files().target())) {}

GapReader CompareTarget::gap_reader() {
  return [this](const EngineRequest& request, std::span<const Token> text, std::optional<Token> best,
                std::optional<Token> other) -> std::optional<double> {
    const bool known =
        !request.prompt.empty() && request.min_tokens == 0 && request.json_schema.empty() && request.grammar.empty();
    const auto valid = [&](Token token) { return token >= 0 && token < vocabulary(); };
    std::vector<Token> all = request.prompt;
    all.insert(all.end(), text.begin(), text.end());
    if (!known || !std::ranges::all_of(all, valid) || static_cast<int>(all.size()) > context()) return std::nullopt;
    if ((best && !valid(*best)) || (other && !valid(*other))) return std::nullopt;
    Sampling sampling = request.sampling;
    for (const Token token : request.banned) sampling.logit_bias.push_back({token, -LogitBias::max});
    std::vector<float> logits;
    with_workers([&] { logits = logits_after(*target_, all); });
    const std::vector<double> exact(logits.begin(), logits.end());
    const spectrace::BestToken row(exact, sampling, all);
    if (other) return row.gap(*other);
    std::optional<double> gap;
    for (const Token stop : stops_) gap = std::min(gap.value_or(row.gap(stop)), row.gap(stop));
    return gap;
  };
}

Report compared(AskedEngine& plain, AskedEngine& speculative, CompareJob job, CompareTarget* target) {
  if (target != nullptr) {
    job.setup.gap = target->gap_reader();
    if (job.setup.context == 0) job.setup.context = target->context();
  }
  CompareResult result = compare_engines(plain, speculative, job.setup);
  Report& report = result.report;
  report.version = DRAFTPROOF_VERSION;
  if (!plain.knows_tokens() || (target == nullptr && job.traces.empty())) return std::move(report);
  std::optional<TemporaryFolder> temporary;
  if (job.traces.empty()) temporary.emplace();
  const std::filesystem::path folder = temporary ? temporary->path() : std::filesystem::path(job.traces);
  TextTrace about;
  about.vocabulary = target != nullptr ? target->vocabulary() : std::numeric_limits<Token>::max();
  if (target != nullptr) about.stops = target->stops();
  about.sampler_order = plain.sampler_order();
  about.engine = plain.name();
  const std::string plain_file = write_trace(folder, "plain.jsonl", about, result.plain);
  about.engine = speculative.name();
  const std::string speculative_file = write_trace(folder, "speculative.jsonl", about, result.speculative);
  if (!temporary) report.about.emplace_back("traces", plain_file + ", " + speculative_file);
  if (target != nullptr && !result.plain.empty() && report.reason != "interrupted") {
    add_distribution(job, plain_file, speculative_file, report);
  }
  return std::move(report);
}

}  // namespace draftproof
