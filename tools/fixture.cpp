// SPDX-License-Identifier: MIT
// Recorded runs that later runs are compared with: record, replay, diff, review. When a replay differs, its run is
// written beside the fixture as NAME.received, and CI fails until somebody accepts that file with a reason or removes
// it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/kernels.h"
#include "oracle/fixtures/fixture_file.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/decoding/engine.h"
#include "ref/models/read_text.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/opened_model.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;
using Path = std::filesystem::path;

constexpr const char* received_extension = ".received";

/// Outputs of a subcommand: text, and JSON when asked for.
struct ResultOptions {
  std::string json_file;
  bool quiet = false;
};

class Results {
 public:
  Results(const char* command, const ResultOptions& options, const std::vector<std::string>& sources)
      : silent_(options.quiet || is_standard_output(options.json_file)), json_({{"command", command}}) {
    if (!options.json_file.empty()) file_ = std::make_unique<OutputFile>(options.json_file, sources);
    json_["fixtures"] = ordered_json::array();
  }
  void add(ordered_json json, const std::string& text) {
    json_["fixtures"].push_back(std::move(json));
    if (!silent_) std::cout << text << std::flush;
  }
  void write() {
    if (file_) file_->write(dumped(json_));
  }

 private:
  bool silent_;
  ordered_json json_;
  std::unique_ptr<OutputFile> file_;
};

ordered_json difference_json(const FixtureDifference& difference) {
  ordered_json json = {{"equal", difference.empty()}};
  for (const auto& [name, change] : difference.asked) json["asked"][name] = change;
  for (const ArrayDifference& array : difference.arrays) {
    ordered_json row = {{"array", array.name},
                        {"index", array.index},
                        {"recorded", array.recorded},
                        {"found", array.found},
                        {"ulps", ordered_json()},
                        {"differing", array.differing},
                        {"compared", array.compared},
                        {"only_recorded", array.only_recorded},
                        {"only_found", array.only_found},
                        {"ulps_max", array.ulps_max}};
    if (array.ulps) row["ulps"] = *array.ulps;
    json["arrays"].push_back(row);
  }
  if (difference.first_token) json["first_token"] = *difference.first_token;
  if (!difference.empty()) {
    json["accepted_draft_tokens"] = difference.drafts.accepted();
    json["accepted_in_one_only"] = difference.drafts.alone();
    if (difference.drafts.slower()) json["perf_regression"] = difference.drafts.slower_from();
  }
  if (difference.variation) {
    json["total_variation"] =
        static_cast<double>(difference.variation->first) / static_cast<double>(2 * Distribution::total);
  }
  return json;
}

/// Returns how a command ends that found this difference between runs of one numerics class.
Exit exit_of(const FixtureDifference& difference) {
  if (difference.empty()) return Exit::pass;
  return difference.only_draft && difference.drafts.slower() ? Exit::perf_regression : Exit::divergence;
}

/// Returns 0 for what matters most: a change of the text or its rows, a worse draft, an open question, no change.
int rank_of(Exit exit) {
  switch (exit) {
    case Exit::divergence: return 0;
    case Exit::perf_regression: return 1;
    case Exit::undecided: return 2;
    default: return 3;
  }
}

/// Returns the path with links resolved.
Path real(const Path& fixture) { return std::filesystem::weakly_canonical(std::filesystem::absolute(fixture)); }

/// Returns the folder of the fixture with links resolved, as relative paths with ".." need it.
Path folder_of(const Path& fixture) { return real(fixture).parent_path(); }

/// Returns the path relative to the fixture's folder: fixture and models may then be moved together.
std::string seen_from(const Path& fixture, const Path& path) {
  return std::filesystem::relative(path, folder_of(fixture)).generic_string();
}

/// Returns the row of logits that decided each token. The rows are computed again in prefill passes, which by the
/// causal law give the same bits as decoding did. Throws Error when they do not.
Array<float> decided_rows(Model& target, const Trace& trace, const Path& file) {
  std::vector<Fingerprint> digests;
  for (const Round& round : trace.rounds) {
    digests.insert(digests.end(), round.logits.begin(),
                   round.logits.begin() + static_cast<std::ptrdiff_t>(round.emitted.size()));
  }
  std::vector<Token> text = trace.request.prompt;
  if (!trace.output.empty()) text.insert(text.end(), trace.output.begin(), trace.output.end() - 1);
  const int length = static_cast<int>(text.size());
  const int first = static_cast<int>(trace.request.prompt.size()) - 1;
  const int vocabulary = target.vocabulary();
  Array<float> rows{{static_cast<std::int64_t>(digests.size()), vocabulary}, {}};
  if (digests.empty()) return rows;
  const auto cache = target.new_cache(length, prefill_chunk);
  read_text(target, *cache, text, prefill_chunk, {}, first, [&](int index, std::span<const float> logits) {
    if (digest_of(logits) != digests[index - first]) {
      throw Error(
          fmt::format("{}: row {} has other bits when it is computed again, so rows of its target depend on "
                      "more than the text; run draftproof verify on the target",
                      file.string(), index - first));
    }
    rows.values.insert(rows.values.end(), logits.begin(), logits.end());
  });
  return rows;
}

/// How a fixture is run.
struct FixtureRun {
  Path file;  // for messages
  std::string draft;
  bool rows;
};

/// Runs the request of the fixture now. Returns the fixture with the arrays of this run.
Fixture run(Fixture fixture, const FixtureRun& how, OpenedModel& model) {
  require_chains(how.draft, how.file.string() + ": a fixture");
  Engine& engine = model.load({how.draft}, fixture.request, fixture.execution.draft_max);
  if (const std::string why = request_error(fixture.request, engine.target()); !why.empty()) {
    throw Error(how.file.string() + ": " + why);
  }
  if (const Gate gate = engine.gate(how.draft); gate != Gate::open && gate != Gate::no_draft) {
    throw Error(fmt::format("{}: the draft {} cannot be used: {}", how.file.string(), how.draft, name_of(gate)));
  }
  PhiloxSource random(fixture.seed);
  const Trace trace = engine.decode({.request = fixture.request,
                                     .execution = fixture.execution,
                                     .draft = how.draft,
                                     .rule = rule_by_name(fixture.rule),
                                     .random = random,
                                     .recording = Recording::digests,
                                     .cancelled = watch_for_interrupt()});
  if (trace.finish == Finish::cancelled) throw Error(how.file.string() + ": interrupted; the run is not complete");
  fixture.generator = "draftproof fixture";
  fixture.version = DRAFTPROOF_VERSION;
  fixture.numerics = numerics_of(engine.kernels());
  fixture.request = trace.request;
  fixture.execution = trace.execution;
  fixture.arrays = make_arrays(trace, how.rows ? decided_rows(engine.target(), trace, how.file) : Array<float>{});
  return fixture;
}

/// Returns the path of the file that a mismatch is written to, beside the fixture.
Path received_of(const Path& file) { return file.string() + received_extension; }

struct RecordOptions {
  CommonOptions common;
  std::string file;
  std::string draft = "none";
  std::string reason;
  bool rows = false;
};

Exit record(const RecordOptions& options) {
  const CommonOptions& common = options.common;
  const Path file = options.file;
  expect_reason(file, options.reason);
  const DraftSpec draft = parse_draft_spec(options.draft);
  std::error_code failure;
  if (!std::filesystem::is_directory(folder_of(file), failure)) {
    throw Error(folder_of(file).string() + ": no such folder, for " + file.string());
  }
  if (is_present(file)) read_fixture(file);  // refuses to overwrite anything but a fixture
  std::vector<std::string> sources = draft.paths();
  sources.insert(sources.end(), {common.target, common.prompt_file, options.file});
  Results results("fixture record", {common.json_file, common.quiet}, sources);

  if (common.load_options.long_context) throw Error("--long-context: fixtures cannot say it yet");
  if (!common.load_options.lora.empty()) throw Error("--lora: fixtures cannot say it yet");
  Fixture fixture;
  fixture.reason = options.reason;
  fixture.rule = rule_by_name(common.rule).name;
  fixture.quantize = common.load_options.quantize;
  fixture.kv = common.load_options.kv;
  fixture.seed = common.seed;
  OpenedModel model({common.target, common.load_options, {.number = threads_to_use(common)}, common.quiet});
  fixture.request = make_request(common, model.files().target(), model.tokenizer_to_read(common));
  fixture.execution = make_execution(common);
  fixture.execution.draft_max = fixed_draft_max(common);
  fixture.target = seen_from(file, common.target);
  fixture.draft = draft.name_with_paths([&](const Path& path) { return seen_from(file, path); });
  fixture = run(std::move(fixture), {file, options.draft, options.rows}, model);
  write_fixture(real(file), fixture);
  std::filesystem::remove(received_of(file), failure);  // it belongs to the run that is replaced
  const auto tokens = fixture.find<std::int32_t>("tokens")->values.size();
  const auto rounds = fixture.find<std::int32_t>("rounds")->shape[0];
  results.add({{"fixture", options.file}, {"tokens", tokens}, {"rounds", rounds}, {"numerics", fixture.numerics}},
              fmt::format("{}: {} tokens in {} rounds, {}\n", options.file, tokens, rounds, fixture.numerics));
  results.write();
  return Exit::pass;
}

struct ReplayOptions {
  std::vector<std::string> files;
  std::string target;
  std::string draft;
  std::string kernels;
  int threads = 0;
  ResultOptions result;
};

/// Returns one spelling for all paths of a file or folder.
std::string place_of(const Path& path) { return std::filesystem::weakly_canonical(path).string(); }
std::string place_of_draft(const std::string& draft) {
  return parse_draft_spec(draft).name_with_paths([](const Path& path) { return place_of(path); });
}

Exit replay_one(const ReplayOptions& options, const Path& file, Results& results) {
  const Fixture recorded = read_fixture(file);
  const std::string recorded_target = (folder_of(file) / recorded.target).lexically_normal().string();
  std::string recorded_draft;
  try {
    recorded_draft = parse_draft_spec(recorded.draft).name_with_paths([&](const Path& path) {
      return (folder_of(file) / path).lexically_normal();
    });
  } catch (const Error& wrong) {
    throw Error(file.string() + ": '/request' attribute 'draft': " + wrong.what());
  }
  const std::string target = options.target.empty() ? recorded_target : options.target;
  const std::string draft = options.draft.empty() ? recorded_draft : options.draft;
  ordered_json json = {{"fixture", file.string()}};
  std::string instead;  // names a target or draft other than the recorded one
  if (place_of(target) != place_of(recorded_target)) {
    json["target"] = target;
    instead = fmt::format(" with target {}, not the recorded {}", target, recorded.target);
  }
  if (place_of_draft(draft) != place_of_draft(recorded_draft)) {
    json["draft"] = draft;
    instead +=
        fmt::format("{} with draft {}, not the recorded {}", instead.empty() ? "" : " and", draft, recorded.draft);
  }
  OpenedModel model(
      {target, {options.kernels, recorded.quantize, recorded.kv}, {.number = options.threads}, options.result.quiet});
  model.progress().show("replaying " + file.string());
  Fixture found = run(recorded, {file, draft, recorded.find<float>("rows") != nullptr}, model);
  model.progress().show("");
  const std::string numerics = std::exchange(found.numerics, recorded.numerics);
  const bool as_recorded = numerics == recorded.numerics && instead.empty();
  FixtureDifference change = difference(recorded, found);
  if (draft == "none") change.drafts = {};  // no draft was asked for
  const std::string table = kernels_by_name(options.kernels).name;
  json.update(difference_json(change));
  json["kernels"] = table;
  json["numerics"] = numerics;
  // The .received file is about the recorded target, draft and numerics: only such a run may write or remove it.
  std::error_code failure;
  if (change.empty()) {
    if (as_recorded) std::filesystem::remove(received_of(file), failure);
    results.add(json, fmt::format("{}: equal on {}{}\n", file.string(), table, instead));
    return Exit::pass;
  }
  if (numerics != recorded.numerics) {
    results.add(json, fmt::format("{}: differs on {}, whose numerics are {}; it was recorded with {}{}\n{}",
                                  file.string(), table, numerics, recorded.numerics, instead, change.text()));
    return !change.first_token && change.drafts.slower() ? Exit::perf_regression : Exit::undecided;
  }
  std::string text = fmt::format("{}: differs on {}{}\n{}", file.string(), table, instead, change.text());
  if (as_recorded) {
    text += fmt::format("  written to {}: see draftproof fixture review\n", received_of(file).string());
    write_fixture(received_of(file), found);
  }
  results.add(json, text);
  return exit_of(change);
}

Exit replay(const ReplayOptions& options) {
  std::vector<std::string> sources = options.files;
  sources.push_back(options.target);
  Results results("fixture replay", options.result, sources);
  Exit exit = Exit::pass;
  for (const std::string& file : options.files) {
    const Exit one = replay_one(options, file, results);
    exit = std::min(exit, one, [](Exit a, Exit b) { return rank_of(a) < rank_of(b); });
  }
  results.write();
  return exit;
}

struct DiffOptions {
  std::string recorded;
  std::string found;
  ResultOptions result;
};

Exit diff(const DiffOptions& options) {
  Results results("fixture diff", options.result, {options.recorded, options.found});
  const FixtureDifference change = difference(read_fixture(options.recorded), read_fixture(options.found));
  ordered_json json = difference_json(change);
  json["fixture"] = options.recorded;
  json["other"] = options.found;
  results.add(json, change.empty() ? options.recorded + " and " + options.found + ": equal\n"
                                   : options.recorded + " differs from " + options.found + "\n" + change.text());
  results.write();
  return exit_of(change);
}

struct ReviewOptions {
  std::vector<std::string> paths{"fixtures"};
  bool accept = false;
  std::string reason;
  ResultOptions result;
};

/// Returns all .received files named or below the named folders, each once, in ascending order.
std::vector<Path> received_in(const std::vector<std::string>& paths) {
  std::vector<Path> files;
  std::set<Path> known;
  const auto add = [&](const Path& path) {
    const Path folder = std::filesystem::canonical(std::filesystem::absolute(path).parent_path());
    if (known.insert(folder / path.filename()).second) files.push_back(path);
  };
  for (const std::string& path : paths) {
    if (!is_present(path)) throw Error(path + ": no such file or folder");
    if (!std::filesystem::is_directory(path)) {
      if (Path(path).extension() != received_extension) throw Error(path + ": is not a .received file");
      add(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file() && entry.path().extension() == received_extension) add(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Pending {
  Path received;
  Path file;
  bool fresh;
  FixtureDifference change;
};

Pending read_pending(const Path& received) {
  const Path file = Path(received).replace_extension();
  const Fixture found = read_fixture(received);
  const bool fresh = !is_present(file);
  return {received, file, fresh, fresh ? FixtureDifference() : difference(read_fixture(file), found)};
}

void expect_acceptable(const Pending& pending, const std::string& reason) {
  expect_reason(pending.file, reason);
  if (pending.change.asked.empty()) return;
  const auto& [name, change] = pending.change.asked.front();
  throw Error(fmt::format("{}: its {} is not that of the fixture: {}; replay the fixture, or remove this file",
                          pending.received.string(), name, change));
}

void accept(const Pending& pending, const std::string& reason) {
  Fixture found = read_fixture(pending.received);
  found.reason = reason;
  write_fixture(real(pending.file), found);
  std::error_code failure;
  std::filesystem::remove(pending.received, failure);
}

Exit review(const ReviewOptions& options) {
  Results results("fixture review", options.result, options.paths);
  std::vector<Pending> all;
  for (const Path& received : received_in(options.paths)) all.push_back(read_pending(received));
  if (options.accept) {
    for (const Pending& pending : all) expect_acceptable(pending, options.reason);  // all are accepted, or none
  }
  for (const Pending& pending : all) {
    if (options.accept) accept(pending, options.reason);
    ordered_json json = difference_json(pending.change);
    json["fixture"] = pending.file.string();
    json["accepted"] = options.accept;
    results.add(json, fmt::format("{}: {}\n{}", pending.file.string(), options.accept ? "accepted" : "pending",
                                  pending.fresh            ? "  there was no fixture before\n"
                                  : pending.change.empty() ? "  equal to the fixture\n"
                                                           : pending.change.text()));
  }
  results.write();
  if (all.empty() || options.accept) return Exit::pass;
  if (!options.result.quiet) {
    fmt::print(stderr, "{} pending; accept with --accept REASON, or remove the .received files\n", all.size());
  }
  return Exit::divergence;
}

void add_record(Command& app) {
  auto options = std::make_shared<RecordOptions>();
  Command& command = app.subcommand("record", "decode once and keep the tokens and the digests of rows and caches");
  add_common_options(command, options->common);
  command.group("Fixture");
  command.option("fixture", options->file, "the file to write, NAME.h5").required();
  command.option("--reason", options->reason, "why this fixture exists; it is stored in the file").required();
  command.flag("--rows", options->rows, "keep whole rows of logits, too: differences are then shown in ulps");
  add_one_draft_option(command, options->draft);
  add_verification_option(command, options->common.verification);
  command.action([options] { return record(*options); });
}

void add_replay(Command& app) {
  auto options = std::make_shared<ReplayOptions>();
  Command& command = app.subcommand(
      "replay", "decode again what was recorded; exits with 1 when it differs, with 4 when only the draft is worse");
  command.option("fixture", options->files, "files written by record").required().count(1, 1 << 16);
  command.option("--target MODEL", options->target, "use this target instead of the recorded one");
  command.option("--draft", options->draft, "use this draft instead of the recorded one");
  add_kernels_option(command, options->kernels);
  add_threads_option(command, options->threads);
  add_result_options(command, options->result.json_file, options->result.quiet);
  command.action([options] { return replay(*options); });
}

void add_diff(Command& app) {
  auto options = std::make_shared<DiffOptions>();
  Command& command = app.subcommand(
      "diff", "print how two fixtures differ; exits with 1 when they do, with 4 when only the draft is worse");
  command.option("recorded", options->recorded, "a fixture").required();
  command.option("found", options->found, "another fixture, or a .received file").required();
  add_result_options(command, options->result.json_file, options->result.quiet);
  command.action([options] { return diff(*options); });
}

void add_review(Command& app) {
  auto options = std::make_shared<ReviewOptions>();
  Command& command = app.subcommand("review", "show the differences that replays found; exits with 1 if there are any");
  command.option("path", options->paths, "folders to search, or .received files").show_default();
  const Option& accept = command.option("--accept REASON", options->reason, "make them the fixtures, for this reason");
  add_result_options(command, options->result.json_file, options->result.quiet);
  command.action([options, &accept] {
    options->accept = accept.given();
    return review(*options);
  });
}

}  // namespace

void add_fixture(Command& app) {
  Command& command = app.subcommand("fixture", "record runs, and compare later runs with them");
  add_record(command);
  add_replay(command);
  add_diff(command);
  add_review(command);
}

}  // namespace draftproof
