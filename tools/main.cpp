// SPDX-License-Identifier: MIT
#include "tools/command.h"

int main(int argc, char** argv) { return draftproof::run_command(argc, argv); }
