#include "zero/config_facts.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "src/config_convert.hpp"
#include "src/config_text.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

using detail::SchemaRow;
using detail::Value;
using detail::ValueType;

// A fact is read as the key that it answers for.
struct FactKey {
  const char* name;
  const char* path;  // of that key; empty: `own`
  void (*set)(Facts&, const Value&);
};

template <auto member>
void put(Facts& facts, const Value& value) {
  using Field = std::remove_reference_t<decltype(facts.*member)>;
  if constexpr (std::is_same_v<Field, std::vector<double>>) {
    facts.*member = std::get<std::vector<double>>(value);
  } else {
    facts.*member = std::get<typename Field::value_type>(value);
  }
}

constexpr std::array<FactKey, 13> kKeys = {{
    {"micro_batch", "train_micro_batch_size_per_gpu", put<&Facts::micro_batch>},
    {"accumulation", "gradient_accumulation_steps", put<&Facts::accumulation>},
    {"lr", "optimizer.params.lr", put<&Facts::lr>},
    {"weight_decay", "optimizer.params.weight_decay", put<&Facts::weight_decay>},
    {"betas", "optimizer.params.betas",
     [](Facts& facts, const Value& value) {
       const auto& both = std::get<std::vector<double>>(value);
       facts.betas = {both[0], both[1]};
     }},
    {"eps", "optimizer.params.eps", put<&Facts::eps>},
    {"clipping", "gradient_clipping", put<&Facts::clipping>},
    {"total_steps", "scheduler.params.total_num_steps", put<&Facts::total_steps>},
    {"warmup_steps", "scheduler.params.warmup_num_steps", put<&Facts::warmup_steps>},
    {"warmup_min_lr", "scheduler.params.warmup_min_lr", put<&Facts::warmup_min_lr>},
    {"warmup_max_lr", "scheduler.params.warmup_max_lr", put<&Facts::warmup_max_lr>},
    {"hidden_size", "", put<&Facts::hidden_size>},
    {"dtype", "data_types.grad_accum_dtype",
     [](Facts& facts, const Value& value) {
       facts.dtype = dtype_from_name(std::get<std::string>(value));
     }},
}};

const SchemaRow& row_of(const FactKey& key) {
  static const SchemaRow kHiddenSize = {
      .path = "hidden_size", .type = ValueType::kInteger, .range = {.low = 1}};
  return *key.path == '\0' ? kHiddenSize : detail::config_schema()[detail::row_index(key.path)];
}

}  // namespace

void Facts::set(std::string_view key, std::string_view value) {
  const auto found = std::find_if(kKeys.begin(), kKeys.end(),
                                  [&](const FactKey& each) { return each.name == key; });
  if (found == kKeys.end()) {
    std::string names;
    for (const FactKey& each : kKeys) names += detail::concat(names.empty() ? "" : ", ", each.name);
    throw ConfigError(detail::concat("fact ", detail::quoted(key, 80),
                                     ": there is no such fact; valid: ", names));
  }
  const detail::JsonNode node = detail::parse_word_or_json(value, detail::concat("fact ", key));
  const detail::Conversion conversion = detail::convert(row_of(*found), node);
  if (!conversion.refusal.empty()) {
    throw ConfigError(detail::concat("fact ", key, ": ", conversion.refusal));
  }
  found->set(*this, conversion.value);
}

}  // namespace zero
