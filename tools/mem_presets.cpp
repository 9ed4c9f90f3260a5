#include "tools/mem_presets.hpp"

#include <array>

#include "zero/error.hpp"

namespace mem {

namespace {

using zero::DType;
using zero::ModelShape;
using zero::UnitShape;
using zero::detail::concat;

// One family of shapes: what differs between its members.
struct Dimensions {
  std::int64_t layers, width, vocabulary;
  std::int64_t context = 0;   // GPT: learned positions
  std::int64_t ffn = 0;       // Llama: rows of gate and up
  std::int64_t kv_width = 0;  // Llama: heads of keys and values x their width
};

class UnitBuilder {
 public:
  UnitBuilder(std::string name, DType dtype) : dtype_(dtype) { unit_.name = std::move(name); }
  void add(const std::string& name, std::vector<std::int64_t> shape) {
    unit_.params.push_back(
        {.name = unit_.name + "." + name, .shape = std::move(shape), .dtype = dtype_});
  }
  UnitShape take() { return std::move(unit_); }

 private:
  UnitShape unit_;
  DType dtype_;
};

// Radford et al. 2019, section 2.3; GPT-3 (Brown et al. 2020, table 2.1) and the models of
// Narayanan et al. 2021 (table 1) have the same parameters. The head is the token embedding.
ModelShape gpt(const Dimensions& d, DType dtype) {
  const std::int64_t c = d.width;
  ModelShape model;
  UnitBuilder embedding("embedding", dtype);
  embedding.add("tokens", {d.vocabulary, c});
  embedding.add("positions", {d.context, c});
  model.units.push_back(embedding.take());
  for (std::int64_t layer = 0; layer < d.layers; ++layer) {
    UnitBuilder block(concat("h", layer), dtype);
    block.add("ln1.gain", {c});
    block.add("ln1.bias", {c});
    block.add("qkv.weight", {3 * c, c});
    block.add("qkv.bias", {3 * c});
    block.add("proj.weight", {c, c});
    block.add("proj.bias", {c});
    block.add("ln2.gain", {c});
    block.add("ln2.bias", {c});
    block.add("fc.weight", {4 * c, c});
    block.add("fc.bias", {4 * c});
    block.add("fc_proj.weight", {c, 4 * c});
    block.add("fc_proj.bias", {c});
    model.units.push_back(block.take());
  }
  UnitBuilder head("head", dtype);
  head.add("ln.gain", {c});
  head.add("ln.bias", {c});
  model.units.push_back(head.take());
  model.units.back().shared = {"embedding.tokens"};
  return model;
}

// Touvron et al. 2023: no biases, RMS norms, gated feed-forward, a head of its own.
ModelShape llama(const Dimensions& d, DType dtype) {
  const std::int64_t c = d.width;
  ModelShape model;
  UnitBuilder embedding("embedding", dtype);
  embedding.add("tokens", {d.vocabulary, c});
  model.units.push_back(embedding.take());
  for (std::int64_t layer = 0; layer < d.layers; ++layer) {
    UnitBuilder block(concat("h", layer), dtype);
    block.add("attention_norm", {c});
    block.add("q.weight", {c, c});
    block.add("k.weight", {d.kv_width, c});
    block.add("v.weight", {d.kv_width, c});
    block.add("o.weight", {c, c});
    block.add("ffn_norm", {c});
    block.add("gate.weight", {d.ffn, c});
    block.add("up.weight", {d.ffn, c});
    block.add("down.weight", {c, d.ffn});
    model.units.push_back(block.take());
  }
  UnitBuilder head("head", dtype);
  head.add("norm", {c});
  head.add("weight", {d.vocabulary, c});
  model.units.push_back(head.take());
  return model;
}

struct Preset {
  const char* name;
  ModelShape (*build)(const Dimensions&, DType);
  Dimensions dimensions;
};

const std::array<Preset, 6>& presets() {
  static const std::array<Preset, 6> kPresets = {{
      {"gpt2-124m", gpt, {.layers = 12, .width = 768, .vocabulary = 50257, .context = 1024}},
      {"gpt2-1.5b", gpt, {.layers = 48, .width = 1600, .vocabulary = 50257, .context = 1024}},
      {"llama-7b",
       llama,
       {.layers = 32, .width = 4096, .vocabulary = 32000, .ffn = 11008, .kv_width = 4096}},
      {"llama-70b",
       llama,
       {.layers = 80, .width = 8192, .vocabulary = 32000, .ffn = 28672, .kv_width = 8 * 128}},
      {"gpt3-175b", gpt, {.layers = 96, .width = 12288, .vocabulary = 50257, .context = 2048}},
      {"1t", gpt, {.layers = 128, .width = 25600, .vocabulary = 51200, .context = 2048}},
  }};
  return kPresets;
}

}  // namespace

std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) names += concat(names.empty() ? "" : ", ", preset.name);
  return names;
}

ModelShape preset_model(const std::string& name, DType dtype) {
  for (const Preset& preset : presets()) {
    if (name == preset.name) return preset.build(preset.dimensions, dtype);
  }
  throw zero::ConfigError(concat("--preset ", name, ": no such model; valid: ", preset_names()));
}

}  // namespace mem
