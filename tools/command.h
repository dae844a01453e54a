// SPDX-License-Identifier: MIT
// The command draftproof.
#pragma once

namespace draftproof {

/// Runs the command with these words, the name of the program first. Returns its exit status. It takes the process for
/// itself: closed standard streams, the handler of Ctrl-C, what happens when the process ends.
int run_command(int argc, char** argv);

}  // namespace draftproof
