#include "tools/mem_model.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tools/facts.hpp"
#include "tools/mem_format.hpp"
#include "tools/mem_presets.hpp"
#include "tools/precision.hpp"
#include "zero/error.hpp"

namespace mem {

namespace {

using zero::ConfigError;
using zero::DType;
using zero::ModelShape;
using zero::detail::concat;

constexpr const char* kDefaultConfig = R"({"optimizer": {"type": "AdamW"}})";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // Reading is what fails for a folder; an empty file is left to the parser.
  if (!file || (file.peek() != EOF && !(text << file.rdbuf())) || file.bad()) {
    throw ConfigError(concat("--model ", path, ": cannot be read"));
  }
  return text.str();
}

std::int64_t checked_elems(const ModelShape& model) {
  const std::int64_t elems = model.elems();
  if (elems > kMostElems) {
    throw ConfigError(
        concat("the model has ", elems, " elements; at most ", kMostElems, " are planned"));
  }
  return elems;
}

// "bf16", or "bf16, fp32" where the model has both.
std::string dtypes_of(const ModelShape& model) {
  std::string names;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    bool used = false;
    for (const zero::UnitShape& unit : model.units) {
      for (const zero::ParamShape& param : unit.params) used = used || param.dtype == dtype;
    }
    if (used) names += concat(names.empty() ? "" : ", ", zero::dtype_name(dtype));
  }
  return names.empty() ? "no parameters" : names;
}

void check_one_model(const ModelOptions& o) {
  const int given = (o.params ? 1 : 0) + (o.model_path ? 1 : 0) + (o.preset ? 1 : 0);
  if (given != 1) {
    throw ConfigError(concat(given == 0 ? "no model is given" : "more than one model is given",
                             "; valid: exactly one of --params, --model and --preset"));
  }
  if (o.model_path && o.dtype) {
    throw ConfigError("--dtype " + *o.dtype +
                      ": the file of --model has a dtype for each parameter; --dtype goes with "
                      "--params and --preset");
  }
}

}  // namespace

std::int64_t parse_params(const std::string& text) {
  const bool number = text.find_first_not_of("0123456789.eE+") == std::string::npos;
  std::int64_t elems = 0;
  try {
    if (number) elems = zero::parse_bytes(text);  // whole numbers in any spelling, exactly
  } catch (const ConfigError&) {                  // it speaks of bytes
    elems = 0;
  }
  if (elems < 1 || elems > kMostElems) {
    throw ConfigError(concat("--params ", text, ": valid: a whole number from 1 to ", kMostElems,
                             ", e.g. 7500000000 or 7.5e9"));
  }
  return elems;
}

ModelShape plain_stack(std::int64_t elems, DType dtype) {
  ModelShape model;
  for (std::int64_t u = 0; u < kStackUnits; ++u) {
    const std::int64_t numel = elems / kStackUnits + (u < elems % kStackUnits ? 1 : 0);
    zero::UnitShape unit;
    unit.name = concat("unit", u);
    unit.params.push_back({.name = unit.name + ".weight", .shape = {numel}, .dtype = dtype});
    model.units.push_back(std::move(unit));
  }
  return model;
}

Subject resolve(const ModelOptions& o) {
  check_one_model(o);
  Subject subject;
  zero::Facts facts = facts::parse(o.facts);
  facts.defaults_for_auto = true;
  if (o.dtype) {
    const auto flag = zero::dtype_from_name(*o.dtype);
    if (facts.dtype && facts.dtype != flag) {
      throw ConfigError(concat("--fact dtype contradicts --dtype ", *o.dtype));
    }
    facts.dtype = flag;
  }
  subject.config = o.config_path ? zero::Config::load(*o.config_path, facts)
                                 : zero::Config::parse(kDefaultConfig, "built-in config", facts);
  DType dtype = precision::dtype_of(subject.config);
  // What the parameters are, where neither the file nor the flag says it.
  if (facts.dtype && dtype == DType::kFloat32) dtype = *facts.dtype;
  if (o.dtype) {
    dtype = zero::dtype_from_name(*o.dtype).value();
    // A plan is the same with precision keys left out.
    precision::apply_dtype(subject.config, dtype, precision::Keys::kContradicting);
  }
  if (o.params) {
    subject.model = plain_stack(parse_params(*o.params), dtype);
    subject.title = *o.params + " parameters";
  } else if (o.preset) {
    subject.model = preset_model(*o.preset, dtype);
    subject.title = *o.preset;
  } else {
    subject.model = ModelShape::from_json(read_file(*o.model_path), *o.model_path);
    subject.title = valid_utf8(*o.model_path);
  }
  subject.title += ", " + dtypes_of(subject.model);
  subject.elems = checked_elems(subject.model);
  subject.plan_options.stages_slices = o.processes;
  subject.plan_options.saves = o.saves == "sync";
  subject.plan_options.async_saves = o.saves == "async";
  subject.activation_bytes = subject.config.runtime.reserved;
  if (o.activations) {
    try {
      subject.activation_bytes = zero::parse_bytes(*o.activations);
    } catch (const ConfigError& error) {
      throw ConfigError(concat("--activations: ", error.what()));
    }
  }
  if (subject.activation_bytes > kMostBytes) {
    throw ConfigError(concat("activations: ", subject.activation_bytes,
                             " bytes a rank; valid: at most ", kMostBytes));
  }
  return subject;
}

void settle_batch(zero::Config& config, int ranks) {
  std::optional<std::int64_t> own;
  if (!config.train_batch_size && !config.micro_batch_size) own = 1;
  config.resolve_batch(ranks, own);
}

}  // namespace mem
