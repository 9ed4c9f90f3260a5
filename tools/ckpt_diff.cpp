#include "tools/ckpt_diff.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "tools/ckpt_inspect.hpp"
#include "zero/error.hpp"

namespace ckpt {

using zero::detail::concat;

namespace {

constexpr std::int64_t kChunkElems = 1 << 18;

void compare(const std::string& name, const std::string& a, const std::string& b,
             std::vector<std::string>& lines) {
  const auto shown = [](const std::string& text) { return text.empty() ? "(none)" : text; };
  if (a != b) lines.push_back(concat(name, ": ", shown(a), " -> ", shown(b)));
}

// Rows of one name on both sides; what one side lacks is empty there.
void compare(const std::vector<std::pair<std::string, std::string>>& a,
             const std::vector<std::pair<std::string, std::string>>& b,
             std::vector<std::string>& lines) {
  const std::map<std::string, std::string> in_a(a.begin(), a.end()), in_b(b.begin(), b.end());
  const auto value = [](const auto& rows, const std::string& name) {
    const auto at = rows.find(name);
    return at == rows.end() ? std::string() : at->second;
  };
  for (const auto& [name, text] : a) compare(name, text, value(in_b, name), lines);
  for (const auto& [name, text] : b) {
    if (!in_a.contains(name)) compare(name, "", text, lines);
  }
}

std::vector<std::pair<std::string, std::string>> param_rows(const zero::CheckpointParam& p) {
  std::string shape;
  for (const std::int64_t dimension : p.shape)
    shape += concat(shape.empty() ? "" : ", ", dimension);
  const std::string name = "parameter " + p.name;
  return {{name + ": shape", "[" + shape + "]"},
          {name + ": dtype", std::string(zero::dtype_name(p.dtype))},
          {name + ": group", std::to_string(p.group)},
          {name + ": has_state", p.has_state ? "true" : "false"},
          {name + ": requires_grad", p.requires_grad ? "true" : "false"},
          {name + ": step_count", std::to_string(p.step_count)},
          {name + ": contributions", std::to_string(p.contributions)},
          {name + ": touched", p.touched ? "true" : "false"}};
}

class TensorDiff {
 public:
  TensorDiff(zero::CheckpointReader& a, zero::CheckpointReader& b)
      : a_(a),
        b_(b),
        scratch_(static_cast<std::size_t>(std::max(a.scratch_bytes(), b.scratch_bytes()))) {
    for (auto& chunk : chunks_) chunk.resize(static_cast<std::size_t>(kChunkElems) * sizeof(float));
  }

  // Tensors of a parameter that both have, of the same number of elements.
  void param(const zero::CheckpointParam& p, std::vector<std::string>& lines) {
    for (int k = 0; k < zero::kStateKindCount; ++k) {
      const auto kind = static_cast<zero::StateKind>(k);
      const std::vector<std::string> in_a = a_.parts(kind, p.name), in_b = b_.parts(kind, p.name);
      std::vector<std::string> all;
      std::set_union(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(), std::back_inserter(all));
      for (const std::string& part : all) {
        const std::string name =
            concat(zero::state_kind_name(kind), "/", p.name, part.empty() ? "" : " (" + part + ")");
        const bool here = std::binary_search(in_a.begin(), in_a.end(), part);
        const bool there = std::binary_search(in_b.begin(), in_b.end(), part);
        if (here && there) {
          tensor(kind, p, part, name, lines);
        } else {
          lines.push_back(concat(name, ": only in ", (here ? a_ : b_).folder()));
        }
      }
    }
  }

 private:
  void tensor(zero::StateKind kind, const zero::CheckpointParam& p, const std::string& part,
              const std::string& name, std::vector<std::string>& lines) {
    const zero::DType dtype = a_.dtype(kind, p.name, part);
    if (const zero::DType other = b_.dtype(kind, p.name, part); other != dtype) {
      compare(name + ": dtype", std::string(zero::dtype_name(dtype)),
              std::string(zero::dtype_name(other)), lines);
      return;
    }
    const std::int64_t numel = p.numel();
    std::int64_t count = 0;
    std::string first;
    zero::with_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      for (std::int64_t begin = 0; begin < numel; begin += kChunkElems) {
        const std::int64_t end = std::min(begin + kChunkElems, numel);
        const std::size_t bytes = static_cast<std::size_t>(end - begin) * sizeof(T);
        a_.read(kind, p.name, begin, end, part, std::span(chunks_[0]).first(bytes), scratch_);
        b_.read(kind, p.name, begin, end, part, std::span(chunks_[1]).first(bytes), scratch_);
        if (std::memcmp(chunks_[0].data(), chunks_[1].data(), bytes) == 0) continue;
        for (std::int64_t i = begin; i < end; ++i) {
          const std::size_t at = static_cast<std::size_t>(i - begin) * sizeof(T);
          if (std::memcmp(&chunks_[0][at], &chunks_[1][at], sizeof(T)) == 0) continue;
          if (count++ > 0) continue;
          T values[2];
          for (int side = 0; side < 2; ++side)
            std::memcpy(&values[side], &chunks_[side][at], sizeof(T));
          char text[80];
          std::snprintf(text, sizeof text, "%.9g -> %.9g",
                        static_cast<double>(zero::to_float(values[0])),
                        static_cast<double>(zero::to_float(values[1])));
          first = concat("element ", i, ": ", text);
        }
      }
    });
    if (count > 0) {
      lines.push_back(concat(name, ": ", count, " of ", numel,
                             numel == 1 ? " element" : " elements",
                             count == 1 ? " differs" : " differ", ", the first is ", first));
    }
  }

  zero::CheckpointReader& a_;
  zero::CheckpointReader& b_;
  std::vector<std::byte> chunks_[2];
  std::vector<std::byte> scratch_;
};

}  // namespace

Differences differences(zero::CheckpointReader& a, zero::CheckpointReader& b) {
  const zero::CheckpointManifest& in_a = a.manifest();
  const zero::CheckpointManifest& in_b = b.manifest();
  Differences found;
  compare(state_rows(in_a), state_rows(in_b), found.lines);

  TensorDiff tensors(a, b);
  std::map<std::string, const zero::CheckpointParam*> others;
  for (const zero::CheckpointParam& p : in_b.params) others[p.name] = &p;
  for (const zero::CheckpointParam& p : in_a.params) {
    const auto other = others.find(p.name);
    if (other == others.end()) {
      found.lines.push_back(concat("parameter ", p.name, ": only in ", a.folder()));
      continue;
    }
    compare(param_rows(p), param_rows(*other->second), found.lines);
    if (p.numel() == other->second->numel()) tensors.param(p, found.lines);
    others.erase(other);
  }
  for (const zero::CheckpointParam& p : in_b.params) {
    if (others.contains(p.name)) {
      found.lines.push_back(concat("parameter ", p.name, ": only in ", b.folder()));
    }
  }

  compare("world size", std::to_string(in_a.world_size), std::to_string(in_b.world_size),
          found.notes);
  compare("stage", std::to_string(in_a.stage), std::to_string(in_b.stage), found.notes);
  compare("accumulation steps", std::to_string(in_a.accumulation_steps),
          std::to_string(in_b.accumulation_steps), found.notes);
  compare("version", in_a.version, in_b.version, found.notes);
  if (in_a.config != in_b.config) found.notes.push_back("the configurations are not the same");
  return found;
}

}  // namespace ckpt
