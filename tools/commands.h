// SPDX-License-Identifier: MIT
// Every subcommand, one file each. Each function defines a subcommand with its options and its action.
#pragma once

#include "tools/options.h"

namespace draftproof {

void add_verify(Command& app);
void add_campaign(Command& app);
void add_generate(Command& app);
void add_chat(Command& app);
void add_serve(Command& app);
void add_inspect(Command& app);
void add_signature(Command& app);
void add_fetch(Command& app);
void add_convert(Command& app);
void add_synth(Command& app);
void add_grow(Command& app);
void add_corpus(Command& app);
void add_bench(Command& app);
void add_fixture(Command& app);
void add_trace(Command& app);
void add_endpoint(Command& app);
void add_reproduce(Command& app);
void add_zoo(Command& app);
/// `completion` and `man`, of everything defined in `app` at the time they are called.
void add_completion(Command& app);
void add_man(Command& app);

}  // namespace draftproof
