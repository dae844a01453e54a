// SPDX-License-Identifier: MIT
// Fixtures as HDF5 files, for other programs to open too (h5py). Root attributes: schema ("draftproof.fixture/1"),
// generator, version, reason, sha256. The group /request holds what was asked, texts as attributes and numbers as
// arrays, the group /run the arrays of fixture.h.
//
// sha256 is that of the whole file with its own 64 digits replaced by zeros. It is looked at before the HDF5 library,
// which is not safe on damaged files, sees a byte: a file cut short or changed in any bit is refused.
#pragma once

#include <filesystem>

#include "oracle/fixture.h"

namespace draftproof {

inline constexpr const char* fixture_schema = "draftproof.fixture/1";

/// Throws Error naming file and field; a fixture that is returned can be replayed.
Fixture read_fixture(const std::filesystem::path& file);

/// Replaces the file whole or not at all.
void write_fixture(const std::filesystem::path& file, const Fixture& fixture);

/// The last step of writing: puts the hash into a file that has the attribute, any 64 digits. To be the first that is
/// found, the attribute is the first thing written.
void seal_fixture(const std::filesystem::path& file);

}  // namespace draftproof
