// SPDX-License-Identifier: MIT
// The matrix of wrong decoders and checks: do the checks still bite, and only what is wrong?
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "ref/base/error.h"
#include "tools/commands.h"
#include "tools/progress.h"
#include "zoo/zoo.h"

namespace draftproof {
namespace {

struct ZooOptions {
  std::vector<std::string> only;
  std::string json_file;
  bool quiet = false;
};

std::vector<const zoo::Mutant*> chosen(const std::vector<std::string>& only) {
  std::vector<const zoo::Mutant*> all;
  for (const zoo::Mutant& mutant : zoo::all_mutants()) all.push_back(&mutant);
  for (const zoo::Mutant& control : zoo::all_controls()) all.push_back(&control);
  if (only.empty()) return all;
  std::vector<const zoo::Mutant*> list;
  for (const std::string& id : only) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const zoo::Mutant* mutant) { return id == mutant->id; });
    if (at == all.end()) {
      throw Error("--only " + id + ": there is no such mutant or control; `draftproof zoo` lists them all");
    }
    list.push_back(*at);
  }
  return list;
}

std::string json_of(const std::vector<zoo::Row>& rows, bool all_well) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [mutant, findings] : rows) {
    nlohmann::ordered_json checks;
    for (const std::string& check : zoo::check_names()) {
      const Finding& finding = findings.at(check);
      checks[check] = {{"outcome", name_of(finding.outcome)},
                       {"examined", finding.examined},
                       {"sentence", finding.sentence}};
    }
    list.push_back({{"id", mutant->id},
                    {"name", mutant->name},
                    {"line", mutant->line},
                    {"thread", mutant->thread},
                    {"harm", zoo::name_of(mutant->harm)},
                    {"cause", mutant->cause},
                    {"must_be_caught_by", mutant->caught_by},
                    {"as_it_must_be", zoo::as_it_must_be(*mutant, findings)},
                    {"checks", checks}});
  }
  return nlohmann::ordered_json{{"version", DRAFTPROOF_VERSION}, {"all_as_they_must_be", all_well}, {"decoders", list}}
             .dump(2) +
         "\n";
}

/// What the checks say of a few decoders, in their own words.
std::string sentences_of(const std::vector<zoo::Row>& rows) {
  std::string text;
  for (const auto& [mutant, findings] : rows) {
    text += fmt::format("\n{} {}\n", mutant->id, mutant->name);
    for (const std::string& check : zoo::check_names()) {
      const Finding& finding = findings.at(check);
      text += fmt::format("  {:<18} {:<7} {}\n", check, name_of(finding.outcome), finding.sentence);
    }
  }
  return text;
}

Exit examine_zoo(const ZooOptions& options) {
  const std::vector<const zoo::Mutant*> mutants = chosen(options.only);
  std::unique_ptr<OutputFile> json_file;
  if (!options.json_file.empty()) {
    json_file = std::make_unique<OutputFile>(options.json_file, std::vector<std::string>{});
  }
  Progress progress(options.quiet);
  std::vector<zoo::Row> rows;
  for (const zoo::Mutant* mutant : mutants) {
    progress.say(fmt::format("{} {} ({} of {})", mutant->id, mutant->name, rows.size() + 1, mutants.size()));
    rows.push_back({mutant, zoo::examined(mutant->parts)});
  }
  progress.say("");

  std::map<bool, int> wrong;  // by whether they are controls
  std::map<bool, int> all;
  std::string faults;
  for (const auto& [mutant, findings] : rows) {
    const bool control = mutant->harm == zoo::Harm::none;
    ++all[control];
    if (zoo::as_it_must_be(*mutant, findings)) continue;
    ++wrong[control];
    faults += fmt::format("{} {} {}\n", mutant->id, mutant->name,
                          control ? "is right and was not passed" : "escapes a check that must catch it");
  }
  if (!options.quiet && options.json_file != "-") {
    std::cout << zoo::matrix_text(rows) << (options.only.empty() ? "" : sentences_of(rows)) << "\n"
              << faults
              << fmt::format("{} of {} mutants caught, {} of {} controls silent\n", all[false] - wrong[false],
                             all[false], all[true] - wrong[true], all[true])
              << std::flush;
  }
  if (json_file) json_file->write(json_of(rows, faults.empty()));
  if (!std::cout) throw Error("standard output cannot be written to");
  return faults.empty() ? Exit::pass : Exit::divergence;
}

}  // namespace

void add_zoo(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<ZooOptions>();
  CLI::App* const command = app.add_subcommand("zoo", "put every check to wrong decoders it must flag, and right ones");
  command->add_option("--only", options->only, "mutants or controls, by id (A01, N03, ...)")->expected(1, 256);
  command->add_option("--json", options->json_file, "write the result as JSON to this file; - is standard output");
  command->add_flag("--quiet", options->quiet, "print nothing but errors");
  command->callback([options, &exit] { exit = examine_zoo(*options); });
}

}  // namespace draftproof
