// SPDX-License-Identifier: MIT
// A driver of the HDF5 library that reads a file which is open already: a process that may open nothing reads with it.
#pragma once

#include <cstdint>

#include "ref/formats/file_bytes.h"

namespace draftproof {

/// Returns the handle of the library's file, negative when it takes it for none. `bytes` must outlive it.
std::int64_t open_over(const FileBytes& bytes);

}  // namespace draftproof
