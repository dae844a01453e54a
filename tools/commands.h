// SPDX-License-Identifier: MIT
// Every subcommand, one file each. Adding one registers its flags and what runs when it is chosen; the run's status
// goes to `exit`.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/options.h"

namespace draftproof {

void add_verify(CLI::App& app, Exit& exit);
void add_generate(CLI::App& app, Exit& exit);
void add_inspect(CLI::App& app, Exit& exit);
void add_signature(CLI::App& app, Exit& exit);
void add_synth(CLI::App& app, Exit& exit);
void add_bench(CLI::App& app, Exit& exit);
void add_fixture(CLI::App& app, Exit& exit);
void add_trace(CLI::App& app, Exit& exit);
void add_reproduce(CLI::App& app, Exit& exit);
void add_zoo(CLI::App& app, Exit& exit);

}  // namespace draftproof
