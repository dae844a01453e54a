// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <fstream>

#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/formats/whole_file.h"
#include "tools/commands.h"
#include "tools/grown_model.h"
#include "tools/interrupt.h"
#include "tools/progress.h"

namespace draftproof {
namespace {

struct GrowOptions {
  std::string model;
  std::string shape;
  std::string folder;
  std::uint64_t seed = 0;
  bool quiet = false;
};

Exit grow(const GrowOptions& options) {
  const Checkpoint from(options.model);
  if (from.metadata() != nullptr) throw Error(options.model + ": is a GGUF; grow the Hugging Face folder of the model");
  GrownModel model = grown(from, synthetic_shape(options.shape), options.seed);
  const std::filesystem::path folder = options.folder;
  std::error_code error;
  if (!std::filesystem::create_directory(folder, error)) {
    throw Error(options.folder + ": cannot be created; name a folder that does not exist, in one that does");
  }
  try {
    Progress progress(options.quiet);
    const std::atomic<bool>* const interrupted = watch_for_interrupt();
    for (SafeTensor& tensor : model.tensors) {
      tensor.rows.read = [&, name = tensor.name, read = std::move(tensor.rows.read)](int first, int rows, void* to) {
        if (interrupted->load()) throw Error(options.folder + ": interrupted; the folder is not kept");
        progress.show(name);
        read(first, rows, to);
      };
    }
    write_safetensors(folder / "model.safetensors", model.tensors);
    replace_whole(folder / "config.json", [&](const std::filesystem::path& partial) {
      std::ofstream file(partial);
      file << model.config;
      if (!file.flush()) throw Error(options.folder + ": config.json cannot be written; check the space on the disk");
    });
    for (const char* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
      if (is_present(from.path() / file)) copy_file(from.path() / file, folder / file);
    }
  } catch (...) {
    remove_all(folder, error);
    throw;
  }
  if (!options.quiet) fmt::print("{}: {} in the shape of {}\n", options.folder, options.model, options.shape);
  return Exit::pass;
}

}  // namespace

void add_grow(Command& app) {
  auto options = std::make_shared<GrowOptions>();
  Command& command =
      app.subcommand("grow", "write a trained small model in the shape of a large one, to measure speed on real text");
  command
      .option("model", options->model,
              "the folder of a Qwen3 with tied embeddings, or of its DFlash draft, EAGLE-3 or MTP head")
      .required();
  command
      .option("--shape", options->shape,
              "shape of the target, or of a small model that drafts for it: " + shape_names())
      .required();
  command.option("folder", options->folder, "the folder to create").required();
  add_seed_option(command, options->seed, "equal seeds give equal bytes");
  command.group("Output");
  command.flag("--quiet", options->quiet, "print nothing but errors");
  command.action([options] { return grow(*options); });
}

}  // namespace draftproof
