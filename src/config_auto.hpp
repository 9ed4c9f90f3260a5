// What a file leaves "auto", and the facts that settle it.
#pragma once

#include "src/config_reader.hpp"

namespace zero::detail {

// The facts without those that nothing can be made of; each of those is a problem.
Facts usable_facts(Facts facts, Problems& problems);
// Settles a row that is "auto" (not the batch, see config_batch.cpp), and takes facts in the place
// of a missing "optimizer". Called in the order of the table, before the row's value is set.
void settle_auto(std::size_t row, const Facts& facts, const Config& config, Reading& reading);
// Warns of facts that the file overrules. REQUIRES: all values are set.
void warn_of_overruled(const Facts& facts, const Config& config, Reading& reading);

}  // namespace zero::detail
