// Manifests and records as text: JSON whose last line is a checksum of all bytes before it, so that
// any change of the text is seen.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "zero/checkpoint.hpp"

namespace zero::checkpoint {

// Throws CheckpointError where the text is neither empty nor JSON.
void check_user_data(const std::string& text);

// Throws CheckpointError where config or user_data are no JSON, or a name is not UTF-8.
std::string manifest_text(const CheckpointManifest& manifest);
// The inverse; config comes back as the same values in compact form. `where` names the
// file in errors: changed since it was written, of another format, or not a manifest.
CheckpointManifest parse_manifest(std::span<const std::byte> text, const std::string& where);

// What a rank publishes: its file, or why there is none.
struct Record {
  CheckpointFile file;
  std::string failure;  // empty: none
};
std::string record_text(const Record& record);
Record parse_record(std::span<const std::byte> text, const std::string& where);

}  // namespace zero::checkpoint
