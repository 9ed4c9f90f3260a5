// Reads reproduction files. Everything in a file is read and checked: a key that is not known, a
// list of the wrong length or a name nobody registered is refused with its JSON path.
#pragma once

#include <string>
#include <string_view>

#include "tools/case_file.hpp"

namespace zero::cases {

// Throws CaseError.
CaseFile read_case(std::string_view text);
// Throws CaseError, also when the file cannot be opened.
CaseFile load_case(const std::string& path);

}  // namespace zero::cases
