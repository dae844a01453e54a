// SPDX-License-Identifier: MIT
// The time from a row of logits to a token: reading the row as a distribution, a draw from it, and drawing a
// draft token and applying each rule to it, for common sampling settings and three kinds of rows.
#include <fmt/format.h>

#include <deque>
#include <iostream>

#include "kernels/threads.h"
#include "ref/acceptance/draw.h"
#include "ref/acceptance/proposal.h"
#include "ref/acceptance/rule.h"
#include "ref/acceptance/sampler.h"
#include "ref/decoding/engine.h"
#include "tools/bench/bench.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

constexpr int draft_tokens = 4;  // per proposal

struct BenchSamplingOptions {
  BenchOptions bench;
  int vocabulary = 151936;  // of Qwen3
};

/// Draws numbers in [0, 1) by key, the same on every machine.
struct Uniform {
  PhiloxSource random;
  std::int32_t next = 0;
  float operator()() {
    return static_cast<float>(random.below({0, next++, Purpose::target}, std::uint64_t{1} << 24)) * 0x1p-24f;
  }
};

/// Draws an approximately normal number of mean 0 and deviation 1: the sum of twelve uniform ones, minus six.
float bell(Uniform& uniform) {
  float sum = -6;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum;
}

/// Logits as a model with random weights gives them: a normal distribution.
std::vector<float> flat(std::size_t size, std::uint64_t seed) {
  Uniform uniform{PhiloxSource(seed)};
  std::vector<float> row(size);
  for (float& z : row) z = bell(uniform);
  return row;
}

/// Logits of a trained model that is uncertain: most tokens far below, some hundred candidates, a few good ones.
std::vector<float> realistic(std::size_t size, std::uint64_t seed) {
  Uniform uniform{PhiloxSource(seed)};
  std::vector<float> row(size);
  for (float& z : row) z = 2.5f * bell(uniform);
  float height = 22;
  for (int i = 0; i < 300; ++i, height -= i < 20 ? 0.3f : 0.03f)
    row[uniform() * static_cast<float>(size - 1)] = height + uniform();
  return row;
}

/// Logits of a trained model that is certain of one token.
std::vector<float> peaked(std::size_t size, std::uint64_t seed) {
  std::vector<float> row = realistic(size, seed);
  row[size / 3] = 45;
  return row;
}

struct RowKind {
  const char* name;
  std::vector<float> (*row)(std::size_t size, std::uint64_t seed);
};
constexpr RowKind kinds[] = {{"peaked", peaked}, {"realistic", realistic}, {"flat", flat}};

struct Setting {
  const char* name;
  Sampling sampling;
};
constexpr Setting settings[] = {
    {"greedy", {}},
    {"temperature", {.temperature = 1}},
    {"top-k 20", {.temperature = 0.7f, .top_k = 20}},
    {"top-p 0.9", {.temperature = 1, .top_p = 0.9f}},
    {"min-p 0.05", {.temperature = 1, .min_p = 0.05f}},
    {"top-k, top-p, min-p", {.temperature = 0.7f, .top_k = 20, .top_p = 0.8f, .min_p = 0.01f}},
    {"penalties, top-p", {.temperature = 1, .top_p = 0.9f, .repeat_penalty = 1.1f}},
    {"llama.cpp's defaults",
     {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .order = llama_cpp_order}},
    {"top-p, temperature", {.temperature = 0.8f, .top_p = 0.95f, .order = llama_cpp_order}},
    {"typical-p 0.9", {.temperature = 1, .typical_p = 0.9f}},
};

/// Rows of one kind: the target's after each draft token, and the draft's, which are nearly the same.
struct Logits {
  Logits(const RowKind& kind, int vocabulary) {
    for (int i = 0; i <= draft_tokens; ++i) {
      target.push_back(kind.row(static_cast<std::size_t>(vocabulary), static_cast<std::uint64_t>(i)));
      draft.push_back(target.back());
      for (std::size_t token = 0; token < draft.back().size(); ++token)
        draft.back()[token] += 0.01f * static_cast<float>(token % 7);
    }
  }
  std::vector<std::vector<float>> target;
  std::vector<std::vector<float>> draft;
};

/// Reads one row of the target at a time, as the decoder does.
class SyntheticRows final : public TargetRows {
 public:
  SyntheticRows(Sampler& sampler, const Sampling& sampling, const Logits& logits, Distribution& read)
      : sampler_(sampler), sampling_(sampling), logits_(logits), read_(read) {}
  const Distribution& row(int row) override {
    sampler_.read(logits_.target[row], sampling_, {}, read_);
    return read_;
  }

 private:
  Sampler& sampler_;
  const Sampling& sampling_;
  const Logits& logits_;
  Distribution& read_;
};

struct SamplingLine {
  const char* row;
  const char* sampling;
  int read;
  int draw;
  int matching;
  int rejection;
};

/// One kind of row under one setting, with the buffers that a decoder keeps between rounds.
class Measured {
 public:
  Measured(const RowKind& kind, const Setting& setting, const Logits& logits, InterleavedTimer& timer)
      : sampling_(setting.sampling), logits_(logits) {
    const auto add = [&](const char* what, std::function<double()> run) {
      return timer.add(fmt::format("{}, {}: {}", kind.name, setting.name, what), std::move(run));
    };
    line_ = {kind.name,
             setting.name,
             add("read", [this] { return timed([this] { read(); }); }),
             add("draw", [this] { return read(), timed([this] { draw(row_, next_key(), random_); }); }),
             add("matching", [this] { return draft_and_verify(matching); }),
             add("rejection", [this] { return draft_and_verify(rejection); })};
  }
  const SamplingLine& line() const { return line_; }

 private:
  Key next_key() { return {0, position_++, Purpose::target}; }

  void read() { sampler_.read(logits_.target.front(), sampling_, {}, row_); }

  /// Returns the seconds for each draft token. The time of the bonus token is shared among them.
  double draft_and_verify(const Rule& rule) {
    const double seconds = timed([&] {
      ProposalBuilder drafted(sampling_, {}, 0, position_, rule.draft_noise, random_, sampler_);
      for (int i = 0; i < draft_tokens; ++i) drafted.draw(logits_.draft[i]);
      Proposal proposal = std::move(drafted).proposal();
      SyntheticRows rows(sampler_, sampling_, logits_, row_);
      rule.judge(proposal, rows, 0, position_, random_);
      sampler_.give_back(proposal.drawn_from);
    });
    position_ += draft_tokens + 1;
    return seconds / draft_tokens;
  }

  const Sampling& sampling_;
  const Logits& logits_;
  Sampler sampler_;
  Distribution row_;
  PhiloxSource random_{1};
  int position_ = 0;
  SamplingLine line_;
};

std::string text_of(const BenchSamplingOptions& options, const InterleavedTimer& timer,
                    const std::deque<Measured>& all) {
  std::string text =
      fmt::format("rows of {} tokens, {} repeats; microseconds; draft token: drawing it and applying the rule\n",
                  options.vocabulary, timer.repeats());
  text += fmt::format("{:<10} {:<20} {:>23} {:>23} {:>23} {:>23}\n", "", "", "read", "draw", "draft token, matching",
                      "draft token, rejection");
  for (const Measured& measured : all) {
    const SamplingLine& line = measured.line();
    text += fmt::format("{:<10} {:<20}", line.row, line.sampling);
    for (const int index : {line.read, line.draw, line.matching, line.rejection}) {
      const Spread time = timer.seconds(index);
      text += fmt::format(" {:>6.1f} {:<16}", 1e6 * time.median,
                          fmt::format("({:.1f}..{:.1f})", 1e6 * time.min, 1e6 * time.max));
    }
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json json_of(const BenchSamplingOptions& options, const InterleavedTimer& timer,
                               const std::deque<Measured>& all) {
  nlohmann::ordered_json json = {{"command", "bench sampling"},
                                 {"vocabulary", options.vocabulary},
                                 {"draft_tokens", draft_tokens},
                                 {"repeats", timer.repeats()},
                                 {"limits", timer.limits_json()}};
  for (const Measured& measured : all) {
    const SamplingLine& line = measured.line();
    const auto milliseconds = [&](int index) { return spread_json(timer.seconds(index), 1e3); };
    json["rows"].push_back({{"row", line.row},
                            {"sampling", line.sampling},
                            {"milliseconds_to_read", milliseconds(line.read)},
                            {"milliseconds_to_draw", milliseconds(line.draw)},
                            {"milliseconds_a_draft_token_by_matching", milliseconds(line.matching)},
                            {"milliseconds_a_draft_token_by_rejection", milliseconds(line.rejection)}});
  }
  return json;
}

Exit bench_sampling(const BenchSamplingOptions& options) {
  const BenchOptions& bench = options.bench;
  if (bench.threads > 0) set_threads(bench.threads);
  const auto json_file = bench_json_file(bench, {});
  const Roofline roofline(roofline_bytes);
  InterleavedTimer timer(roofline);
  std::deque<Logits> logits;
  std::deque<Measured> all;
  for (const RowKind& kind : kinds) {
    logits.emplace_back(kind, options.vocabulary);
    for (const Setting& setting : settings) all.emplace_back(kind, setting, logits.back(), timer);
  }
  with_workers([&] { timer.run(bench); });
  if (shows_text(bench)) std::cout << text_of(options, timer, all) << std::flush;
  if (json_file) json_file->write(dumped(json_of(options, timer, all)));
  return Exit::pass;
}

}  // namespace

void add_bench_sampling(Command& bench) {
  auto options = std::make_shared<BenchSamplingOptions>();
  Command& command = bench.subcommand("sampling", "from a row of logits to a token, and to a verified draft token");
  command.group("Measurement");
  command.option("--vocabulary", options->vocabulary, "tokens of a row").range(1, 1 << 23).show_default();
  add_bench_options(command, options->bench, 25);
  command.action([options] { return bench_sampling(*options); });
}

}  // namespace draftproof
