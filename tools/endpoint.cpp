// SPDX-License-Identifier: MIT
// `draftproof endpoint check`: asks two servers of one engine, with and without speculation, and compares.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/printable.h"
#include "tools/commands.h"
#include "tools/compare_job.h"
#include "tools/http_engine.h"
#include "tools/interrupt.h"
#include "tools/report_files.h"

namespace draftproof {
namespace {

struct EndpointCheckOptions {
  std::string plain;
  std::string speculative;
  std::string api = "auto";
  std::string api_key;
  std::string prompts;
  int answer_seconds = 120;
  CompareJob job;
  ReportFileNames files;
};

/// Gives texts the tokens of the target or of the server, where the interface takes tokens. Throws Error where the two
/// differ.
void encode_prompts(std::vector<EnginePrompt>& prompts, const HttpEngine& plain, CompareTarget* target) {
  if (!plain.knows_tokens()) return;
  const Tokenizer* const tokenizer = target != nullptr ? target->tokenizer() : nullptr;
  for (EnginePrompt& prompt : prompts) {
    if (!prompt.tokens.empty()) continue;
    const std::optional<std::vector<Token>> served = plain.tokenize(prompt.text);
    if (tokenizer != nullptr) {
      prompt.tokens = tokenizer->encode(prompt.text);
      if (served && *served != prompt.tokens) {
        throw Error(
            fmt::format("{} has another tokenizer than the target: {} has {} tokens there and {} here, or other "
                        "ones; give the model that is served as --target",
                        plain.name(), in_quotes(prompt.text), served->size(), prompt.tokens.size()));
      }
    } else if (served) {
      prompt.tokens = *served;
    }
  }
}

Exit check(const EndpointCheckOptions& options) {
  ReportFiles files(options.files, {options.prompts, options.job.target});
  CompareJob job = options.job;
  const std::atomic<bool>* const interrupted = watch_for_interrupt();
  Progress progress(job.quiet);
  if (!job.traces.empty()) {
    std::error_code wrong;
    std::filesystem::create_directories(job.traces, wrong);
    if (wrong) throw Error(job.traces + " cannot be made: " + wrong.message());
  }
  job.setup.prompts.clear();
  if (!options.prompts.empty()) {
    job.setup.prompts = read_prompt_lines(options.prompts);
  } else {
    for (const char* const text : built_in_prompts()) job.setup.prompts.push_back({{}, text});
  }
  std::unique_ptr<CompareTarget> target;
  if (!job.target.empty()) target = std::make_unique<CompareTarget>(job);
  const auto names = std::make_shared<TokenNames>();
  HttpEngineOptions engine;
  engine.api = options.api;
  engine.api_key = options.api_key;
  engine.limit = std::chrono::seconds(options.answer_seconds);
  engine.spelling = target ? target->tokenizer() : nullptr;
  engine.url = options.plain;
  engine.role = "plain";
  HttpEngine plain(engine, names);
  engine.url = options.speculative;
  engine.role = "speculative";
  HttpEngine speculative(engine, names);
  encode_prompts(job.setup.prompts, plain, target.get());
  job.setup.context = plain.context();
  job.setup.progress = [&](const std::string& what) { progress.show(what); };
  job.setup.interrupted = [interrupted] { return interrupted->load(); };
  Report report = compared(plain, speculative, std::move(job), target.get());
  progress.show("");
  report.command = "endpoint check";
  files.write(report, options.job.quiet);
  return exit_of(report.verdict);
}

void add_endpoint_check(Command& endpoint) {
  auto options = std::make_shared<EndpointCheckOptions>();
  options->job.quiet = false;
  Command& command = endpoint.subcommand("check", "compare a server that speculates with the same one that does not");
  command.option("--plain URL", options->plain, "the server without speculation").required();
  command.option("--speculative URL", options->speculative, "the server with it").required();
  command.option("--target MODEL", options->job.target,
                 "the model that both serve: gaps and the distribution of sampled tokens are computed with it");
  std::vector<std::string> apis = names_of_http_apis();
  apis.insert(apis.begin(), "auto");
  command.option("--api", options->api, "what both servers speak; auto asks them").choices(apis).show_default();
  command.option("--api-key KEY", options->api_key, "key that the servers want");
  command.option("--prompts FILE", options->prompts,
                 "a prompt in each line, as text or as a list of token ids; left out: twelve of our own");
  command.option("--case NAME", options->job.setup.cases, "ask only these cases of the matrix (docs/compare.md)")
      .one_each_time();
  command.option("--max-new-tokens", options->job.setup.max_new_tokens, "tokens of a greedy text")
      .range(8, 100'000)
      .show_default();
  command.option("--pairs", options->job.setup.pairs, "sampled texts of each server for every sampled case")
      .range(0, 1'000'000)
      .show_default();
  command.option("--together", options->job.setup.together, "requests at once; twice as many for greedy texts")
      .range(1, 256)
      .show_default();
  command.option("--answer-seconds", options->answer_seconds, "time that one answer may take")
      .range(1, 1'000'000)
      .show_default();
  command.option("--traces DIR", options->job.traces, "keep what was sampled, as traces of tokens, in this folder");
  add_seed_option(command, options->job.setup.seed, "of the seeds that sampled requests are sent with");
  add_kernels_option(command, options->job.kernels);
  add_threads_option(command, options->job.threads);
  add_report_options(command, options->files);
  command.flag("--quiet", options->job.quiet, "print nothing");
  command.action([options] { return check(*options); });
}

}  // namespace

void add_endpoint(Command& app) {
  add_endpoint_check(app.subcommand("endpoint", "check other engines over HTTP (docs/compare.md)"));
}

}  // namespace draftproof
