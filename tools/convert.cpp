// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <limits>

#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/formats/whole_file.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/draft_tables.h"
#include "ref/models/models.h"
#include "ref/models/transformer_config.h"
#include "ref/text/tokenizer.h"
#include "tools/commands.h"
#include "tools/complaint.h"
#include "tools/convert/gguf_model.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/synthetic.h"

namespace draftproof {
namespace {

struct ConvertOptions {
  std::string from;
  std::string to;
  std::string type = "bf16";
  std::string tokenizer;
  std::string reader = "llama.cpp";
  int threads = 0;
  bool quiet = false;
};

/// A text with what tokenizers divide in different ways: digits, contractions, spaces, marks, scripts, symbols.
constexpr const char* probe =
    "Hello, world! It's 12345 o'clock; we'LL see...\n\n\tdef f(x):\r\n    return x**2 // 3\n\n\n"
    "na\u00efve \u0928\u092e\u0938\u094d\u0924\u0947 \u4f60\u597d\uff0c\u4e16\u754c "
    "\U0001f600\U0001f468\u200d\U0001f469 3.14e-5 /path/to  trailing   ";

/// Throws Error unless a GGUF with these fields gives the tokens of the folder's tokenizer for the probe.
void check_tokenizer(const std::filesystem::path& folder, const GgufFields& fields, const std::string& to) {
  const std::filesystem::path original = tokenizer_file(folder);
  const std::vector<Token> wanted = Tokenizer::load(original).encode(probe);
  const PartialFile without_tensors(to);
  write_gguf(without_tensors.path(), fields, {});
  if (Tokenizer::load(to, read_gguf_metadata(without_tensors.path())).encode(probe) == wanted) return;
  throw Error(to + ": is not written, because its tokenizer would not divide texts as " + original.string() +
              " does; what that file says, a GGUF cannot");
}

/// The tensors, with progress shown while they are read.
std::vector<GgufTensor> watched(std::vector<GgufTensor> tensors, const std::string& file, Progress& progress) {
  const std::atomic<bool>* const interrupted = watch_for_interrupt();
  for (GgufTensor& tensor : tensors) {
    tensor.rows.read = [&progress, interrupted, file, name = tensor.name, read = std::move(tensor.rows.read)](
                           int first, int rows, void* to) {
      if (interrupted->load()) throw Error(file + ": interrupted; the file is not written");
      progress.show(name);
      read(first, rows, to);
    };
  }
  return tensors;
}

/// The layers of the model whose tokenizer is used; 0: not known.
int layers_of_target(const ConvertOptions& options) {
  const std::filesystem::path config = std::filesystem::path(options.tokenizer) / "config.json";
  return options.tokenizer.empty() || !is_present(config) ? 0 : describe(Json::read(config)).depth();
}

Exit convert(const ConvertOptions& options) {
  if (options.threads > 0) set_threads(options.threads);
  const Format type = format_named(options.type, FormatChoice::stored);
  const Checkpoint from(options.from);
  if (from.metadata() != nullptr) {
    throw Error(options.from + ": is a GGUF already; convert the Hugging Face folder that it was made of");
  }
  require_replaceable_gguf(options.to, {options.from, options.tokenizer});
  read_stop_tokens(from);  // a GGUF finds them by its vocabulary; refuses a folder that cannot be read whole
  const GgufReader reader = options.reader == "llama.cpp" ? GgufReader::llama_cpp : GgufReader::ik_llama_cpp;
  const GgufFamily& family = gguf_family_for(from.config(), reader);
  const std::filesystem::path folder = options.tokenizer.empty() ? options.from : options.tokenizer;
  GgufFields fields;
  add_model_fields(from, family, type, fields, layers_of_target(options));
  const Json config =
      checkpoint_kind(from.config()) == eagle3_checkpoint ? layer_config(from.config()) : text_config(from.config());
  add_vocabulary(folder, family.architecture, positive(config, "vocab_size"), fields);
  check_tokenizer(folder, fields, options.to);

  Progress progress(options.quiet);
  const std::vector<GgufTensor> tensors = watched(gguf_tensors(from, family, type), options.to, progress);
  with_workers([&] { write_gguf(options.to, fields, tensors); });
  progress.show("");
  if (!options.quiet) {
    fmt::print("{}: {}, {} tensors, {} bytes\n", options.to, family.architecture, tensors.size(),
               std::filesystem::file_size(options.to));
    if (const auto mask = from.config().find("pard_token")) {
      complain("a GGUF has no field for pard_token; draft with pard:" + options.to +
               "?mask=" + std::to_string(mask->integer(0, std::numeric_limits<Token>::max())));
    }
  }
  return Exit::pass;
}

}  // namespace

void add_convert(Command& app) {
  auto options = std::make_shared<ConvertOptions>();
  Command& command = app.subcommand("convert", "write a Hugging Face folder, target or draft, as a GGUF file");
  command.option("folder", options->from, "the folder with config.json and model.safetensors").required();
  command.option("file", options->to, "the file to write, NAME.gguf").required();
  command.option("--type", options->type, "type of the weights: " + format_names(FormatChoice::stored)).show_default();
  command.option("--tokenizer", options->tokenizer,
                 "folder of the tokenizer, where the model's own has none; of a draft that of its target");
  command.option("--for", options->reader, "who reads the file; of a DFlash draft the two want different forms")
      .choices({"llama.cpp", "ik_llama.cpp"})
      .show_default();
  add_threads_option(command, options->threads);
  command.group("Output");
  command.flag("--quiet", options->quiet, "print nothing but errors");
  command.action([options] { return convert(*options); });
}

}  // namespace draftproof
