// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/formats/printable.h"
#include "tools/commands.h"
#include "tools/complaint.h"
#include "tools/fetch/fetch_model.h"
#include "tools/progress.h"

namespace draftproof {
namespace {

struct FetchOptions {
  std::string model;
  bool quiet = false;
};

Exit fetch(const FetchOptions& options) {
  const auto name = read_hub_name(options.model);
  if (!name) {
    throw Error(in_quotes(options.model) +
                " is no model of Hugging Face; give OWNER/NAME, or OWNER/NAME:FILE for one "
                ".gguf file of several");
  }
  Progress progress(options.quiet);
  const Fetched fetched =
      fetch_model(*name, hub_cache(), HubAccess::of_environment(),
                  [&](const std::string& file, std::uint64_t done, std::uint64_t all) {
                    progress.show(fmt::format("{}: {} of {} MB", printable(file), done / 1'000'000, all / 1'000'000));
                  });
  progress.show("");
  if (is_present(options.model)) {
    complain(options.model + " is also here, and is what other commands take by these words; give them the path");
  }
  if (!options.quiet) {
    fmt::print(stderr, "{} in the cache; {} files, {:.1f} MB were fetched\n", options.model, fetched.files,
               static_cast<double>(fetched.bytes) / 1e6);
  }
  fmt::print("{}\n", fetched.path.string());
  return Exit::pass;
}

}  // namespace

void add_fetch(Command& app) {
  auto options = std::make_shared<FetchOptions>();
  Command& command = app.subcommand("fetch", "get a model from Hugging Face into the cache that its programs share");
  command
      .option("MODEL", options->model,
              "OWNER/NAME, or OWNER/NAME:FILE for one .gguf file, by its name or a part of it, as Q4_K_M; other "
              "commands then take the same words for a model")
      .required();
  command.flag("--quiet", options->quiet, "print the path alone");
  command.action([options] { return fetch(*options); });
}

}  // namespace draftproof
