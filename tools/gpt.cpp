#include "tools/gpt.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace gpt {

namespace {

void check(bool ok, const std::string& what) {
  if (!ok) throw std::invalid_argument(what);
}

}  // namespace

void check_shape(const Shape& s) {
  check(s.layers >= 1, "layers is " + std::to_string(s.layers) + ", must be at least 1");
  check(s.heads >= 1, "heads is " + std::to_string(s.heads) + ", must be at least 1");
  check(s.width >= 2 && s.width % s.heads == 0,
        "width is " + std::to_string(s.width) + ", must be at least 2 and a multiple of heads (" +
            std::to_string(s.heads) + ")");
  check(s.context >= 1, "context is " + std::to_string(s.context) + ", must be at least 1 byte");
  check(s.micro_batch >= 1,
        "micro-batch is " + std::to_string(s.micro_batch) + ", must be at least 1 row");
}

std::int64_t Parameter::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

Model::Model(const Shape& shape, Storage storage, const Kernels& kernels)
    : shape_((check_shape(shape), shape)),
      storage_(storage),
      kernels_(kernels),
      blocks_(shape.layers) {
  const std::int64_t c = shape.width;
  // GPT-2's 0.02 at its width of 768, kept in proportion to 1 / sqrt(width).
  const float stddev = 0.02f * std::sqrt(768.0f / static_cast<float>(shape.width));
  // Radford et al. 2019: the projections back into the residual stream are scaled down by depth.
  const float residual = stddev / std::sqrt(2.0f * static_cast<float>(shape.layers));
  int index = 0;
  auto name = [&index](Parameter& p, std::string n, std::vector<std::int64_t> dims, InitKind init,
                       float sd) {
    p = {.name = std::move(n),
         .shape = std::move(dims),
         .init = init,
         .stddev = sd,
         .index = index++};
  };
  const InitKind normal = InitKind::kNormal;
  const InitKind zero = InitKind::kZero;
  const InitKind one = InitKind::kOne;
  name(embedding_.wte, "wte", {kVocabulary, c}, normal, stddev);
  name(embedding_.wpe, "wpe", {shape.context, c}, normal, stddev);
  for (int l = 0; l < shape.layers; ++l) {
    Block& b = blocks_[static_cast<std::size_t>(l)];
    const std::string h = "h" + std::to_string(l) + ".";
    name(b.ln1_gain, h + "ln1.gain", {c}, one, 0);
    name(b.ln1_bias, h + "ln1.bias", {c}, zero, 0);
    name(b.qkv_w, h + "qkv.weight", {3 * c, c}, normal, stddev);
    name(b.qkv_b, h + "qkv.bias", {3 * c}, zero, 0);
    name(b.proj_w, h + "proj.weight", {c, c}, normal, residual);
    name(b.proj_b, h + "proj.bias", {c}, zero, 0);
    name(b.ln2_gain, h + "ln2.gain", {c}, one, 0);
    name(b.ln2_bias, h + "ln2.bias", {c}, zero, 0);
    name(b.fc_w, h + "fc.weight", {4 * c, c}, normal, stddev);
    name(b.fc_b, h + "fc.bias", {4 * c}, zero, 0);
    name(b.fc_proj_w, h + "fc_proj.weight", {c, 4 * c}, normal, residual);
    name(b.fc_proj_b, h + "fc_proj.bias", {c}, zero, 0);
  }
  name(head_.ln_gain, "lnf.gain", {c}, one, 0);
  name(head_.ln_bias, "lnf.bias", {c}, zero, 0);
}

std::vector<Parameter*> Model::unit(int index) {
  if (index == 0) return {&embedding_.wte, &embedding_.wpe};
  if (index == shape_.layers + 1) return {&head_.ln_gain, &head_.ln_bias};
  Block& b = blocks_.at(static_cast<std::size_t>(index - 1));
  return {&b.ln1_gain, &b.ln1_bias, &b.qkv_w, &b.qkv_b, &b.proj_w,    &b.proj_b,
          &b.ln2_gain, &b.ln2_bias, &b.fc_w,  &b.fc_b,  &b.fc_proj_w, &b.fc_proj_b};
}

std::string Model::unit_name(const Shape& shape, int index) {
  if (index == 0) return "embedding";
  return index == shape.layers + 1 ? "head" : "h" + std::to_string(index - 1);
}

void Model::lay_out_activations() {
  const std::ptrdiff_t rows = std::ptrdiff_t{shape_.micro_batch} * shape_.context;
  const std::ptrdiff_t c = shape_.width;
  const std::ptrdiff_t t = shape_.context;
  std::ptrdiff_t elems = 0;
  // Called twice: first to count, then to hand out. Pieces start on cache lines.
  auto take = [&](std::ptrdiff_t n) {
    float* piece = arena_.empty() ? nullptr : arena_.data() + elems;
    elems += (n + 15) / 16 * 16;
    return piece;
  };
  auto matrix = [&](std::ptrdiff_t cols) { return Matrix{take(rows * cols), rows, cols, cols}; };
  auto stats = [&] {
    float* mean = take(rows);
    return RowStats{mean, take(rows)};
  };
  auto lay_out = [&] {
    activations_.clear();
    out_ = matrix(c);
    for (int l = 0; l < shape_.layers; ++l) {
      Activations a{};
      a.in = out_;  // the stream out of the layer before
      a.ln1 = matrix(c);
      a.qkv = matrix(3 * c);
      a.attention = matrix(c);
      a.mid = matrix(c);
      a.ln2 = matrix(c);
      a.fc = matrix(4 * c);
      a.gelu = matrix(4 * c);
      a.probabilities = take(std::ptrdiff_t{shape_.micro_batch} * shape_.heads * t * t);
      a.ln1_stats = stats();
      a.ln2_stats = stats();
      out_ = matrix(c);
      activations_.push_back(a);
    }
    final_norm_ = matrix(c);
    final_stats_ = stats();
    logits_ = matrix(kVocabulary);
    d_stream_ = matrix(c);
    d_norm_ = matrix(c);
    d_wide_ = matrix(4 * c);
    d_scores_ = take(t * t);
    const std::ptrdiff_t largest = std::max({4 * c * c, kVocabulary * c, t * c});
    gradient_ = take(largest);
    if (storage_ != Storage::kFloat32) {  // one unit's weights, each starting on a cache line
      widened_ = take(std::max(12 * c * c + 13 * c, (kVocabulary + t + 2) * c) + 12 * 16);
    }
  };
  lay_out();
  arena_.assign(static_cast<std::size_t>(elems), 0.0f);
  elems = 0;
  lay_out();
}

}  // namespace gpt
