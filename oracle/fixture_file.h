// SPDX-License-Identifier: MIT
// Fixtures as HDF5 files, for other programs to open too (h5py). Root attributes: schema ("draftproof.fixture/1"),
// generator, version, reason, sha256. The group /request holds what was asked, texts as attributes and numbers as
// arrays, the group /run the arrays of fixture.h.
//
// Sealed (ref/formats/hdf5_seal.h): a file cut short or changed in any bit is refused.
#pragma once

#include <filesystem>
#include <string>

#include "oracle/fixture.h"

namespace draftproof {

inline constexpr const char* fixture_schema = "draftproof.fixture/1";

/// Throws Error naming file and field; a fixture that is returned can be replayed.
Fixture read_fixture(const std::filesystem::path& file);

/// Error naming the file when there is none, or one too long to keep.
void expect_reason(const std::filesystem::path& file, const std::string& reason);

/// Replaces the file whole or not at all. Error as expect_reason.
void write_fixture(const std::filesystem::path& file, const Fixture& fixture);

}  // namespace draftproof
