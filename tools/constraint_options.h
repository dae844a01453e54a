// SPDX-License-Identifier: MIT
// --grammar, --json-schema and --logit-bias: what bounds the output of a request beside its sampling parameters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ref/decoding/request.h"
#include "ref/formats/checkpoint.h"
#include "ref/text/tokenizer.h"
#include "tools/command_line.h"

namespace draftproof {

struct ConstraintOptions {
  std::string grammar_file;
  std::string schema_file;
  std::vector<std::string> logit_biases;  // TOKEN=BIAS

  bool constrains() const { return !grammar_file.empty() || !schema_file.empty(); }
  /// The files that the command reads because of them.
  std::vector<std::string> sources() const { return {grammar_file, schema_file}; }
};

void add_constraint_options(Command& command, ConstraintOptions& options);

/// A grammar in GBNF, and the name that errors about it begin with.
struct GrammarText {
  std::string gbnf;  // empty: none
  std::string name;
};

/// The grammar of --grammar, or the one of --json-schema. Throws Error naming the file.
GrammarText grammar_of(const ConstraintOptions& options);

/// Makes the output of a request, whose stop tokens are set, follow the grammar. `target`: the name of the model, for
/// errors. Throws Error when it has no tokenizer.
void constrain(Request& request, const GrammarText& grammar, const Checkpoint& files, const Tokenizer* tokenizer,
               const std::string& target);

/// Adds the biases to the sampling parameters of a request. Throws Error naming the bias.
void add_logit_biases(Request& request, const ConstraintOptions& options, const Checkpoint& files);

}  // namespace draftproof
