// SPDX-License-Identifier: MIT
// Continues a text speculatively, writes what happened as a trace, and has the trace proved.
//
//     generate TARGET DRAFT PROMPT
//
// DRAFT is named as the command does, for example dflash:FOLDER, suffix or none.
#include <exception>
#include <fstream>
#include <iostream>

#include <draftproof/oracle/spectrace/replay.h>
#include <draftproof/oracle/spectrace/writer.h>
#include <draftproof/ref/decoding/engine.h>
#include <draftproof/ref/models/models.h>
#include <draftproof/ref/text/tokenizer.h>

using namespace draftproof;

int main(int count, char** arguments) try {
  if (count != 4) {
    std::cerr << "usage: generate TARGET DRAFT PROMPT\n";
    return 2;
  }
  const std::string draft = arguments[2];
  ModelFiles files(arguments[1]);
  const Tokenizer tokenizer = Tokenizer::load(files.target());
  Engine engine(files, LoadOptions(kernels_by_name("")));

  Request request;
  request.prompt = tokenizer.encode(arguments[3]);
  request.stops = read_stop_tokens(files.target());
  request.sampling.temperature = 0.8;
  request.max_new_tokens = 32;
  constexpr std::uint64_t seed = 7;
  PhiloxSource random(seed);

  std::ofstream file("run.jsonl");
  spectrace::Writer writer([&](std::string_view line) { file << line; }, "example", "", engine.target().vocabulary(),
                           matching, seed);
  writer.begin({.draft = draft, .kernels = engine.kernels().name, .numerics = engine.numerics()});
  const auto add_round = [&](const Trace& so_far) {
    writer.add_round(so_far);
    return Next::go_on;
  };
  DecodeJob job = {.request = request, .draft = draft, .random = random};
  job.watch = {.on_round = add_round, .rows = true};
  const Trace trace = engine.decode(job);
  writer.end(trace);
  file.close();
  std::cout << tokenizer.decode(trace.output) << "\n"
            << trace.output.size() << " tokens in " << trace.rounds.size() << " rounds\n";

  spectrace::TraceTarget target = {.vocabulary = engine.target().vocabulary()};
  target.computing_in = [&](const std::string& numerics) {
    return numerics == engine.numerics() ? std::shared_ptr<Model>(std::shared_ptr<void>(), &engine.target()) : nullptr;
  };
  const spectrace::TraceReport report = spectrace::replay("run.jsonl", target);
  std::cout << name_of(report.verdict()) << "\n";
  return report.verdict() == ReportVerdict::bug_proven ? 1 : 0;
} catch (const std::exception& wrong) {
  std::cerr << wrong.what() << "\n";
  return 1;
}
