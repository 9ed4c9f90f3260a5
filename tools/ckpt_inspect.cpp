#include "tools/ckpt_inspect.hpp"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/mem_format.hpp"
#include "zero/error.hpp"

namespace ckpt {

using zero::detail::concat;
using Json = nlohmann::ordered_json;

namespace {

// The shortest text that reads back as the same number.
std::string number(double value) { return Json(value).dump(); }

std::string group_text(const zero::ParamGroup& g) {
  return concat("lr ", number(g.lr), ", betas ", number(g.beta1), " ", number(g.beta2), ", eps ",
                number(g.eps), ", weight_decay ", number(g.weight_decay));
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return Json(shape).dump(); }

std::string state_of(const zero::CheckpointParam& param) {
  if (!param.has_state) return "frozen";
  return param.requires_grad ? "trained" : "frozen for now";
}

// Bytes of each kind of state, and of what is around it.
struct Sizes {
  std::array<std::int64_t, zero::kStateKindCount> by_kind{};
  std::int64_t files = 0;
};
Sizes sizes_of(const zero::CheckpointManifest& m) {
  Sizes sizes;
  for (const zero::CheckpointFile& file : m.files) {
    sizes.files += file.bytes;
    for (const auto& entry : file.entries) {
      sizes.by_kind[static_cast<std::size_t>(entry.range.kind)] += entry.range.bytes();
    }
  }
  return sizes;
}

Json parsed(const std::string& text) { return text.empty() ? Json(nullptr) : Json::parse(text); }

Json json_of(const zero::ParamGroup& g) {
  return {{"lr", g.lr},
          {"betas", {g.beta1, g.beta2}},
          {"eps", g.eps},
          {"weight_decay", g.weight_decay}};
}

Json json_of(const zero::CheckpointParam& p) {
  return {{"name", p.name},
          {"shape", p.shape},
          {"dtype", zero::dtype_name(p.dtype)},
          {"group", p.group},
          {"has_state", p.has_state},
          {"requires_grad", p.requires_grad},
          {"step_count", p.step_count}};
}

template <class T>
Json list_of(const std::vector<T>& rows) {
  Json list = Json::array();
  for (const T& row : rows) list.push_back(json_of(row));
  return list;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> state_rows(const zero::CheckpointManifest& m) {
  std::vector<std::pair<std::string, std::string>> rows = {
      {"step", std::to_string(m.step)},
      {"applied_steps", std::to_string(m.applied_steps)},
      {"skipped_steps", std::to_string(m.skipped_steps)},
      {"micro_step", std::to_string(m.micro_step)},
      {"loss_scale", number(m.scaler.scale)},
      {"loss_scale dynamic", m.scaler.dynamic ? "true" : "false"},
      {"loss_scale iteration", std::to_string(m.scaler.iteration)},
      {"loss_scale last_overflow", std::to_string(m.scaler.last_overflow)},
      {"loss_scale hysteresis_left", std::to_string(m.scaler.hysteresis_left)},
      {"scheduler", m.scheduler},
      {"scheduler settings", m.scheduler_settings},
      {"scheduler position", std::to_string(m.scheduler_position)}};
  // How the sums are kept is of no account where there are none.
  if (m.micro_step != 0) rows.emplace_back("window", m.window);
  for (std::size_t g = 0; g < m.groups.size(); ++g) {
    rows.emplace_back(concat("group ", g), group_text(m.groups[g]));
  }
  for (std::size_t g = 0; g < m.initial_groups.size(); ++g) {
    rows.emplace_back(concat("initial group ", g), group_text(m.initial_groups[g]));
  }
  rows.emplace_back("groups_by_hand", m.groups_by_hand ? "true" : "false");
  const Json user_data = parsed(m.user_data);
  if (!user_data.is_object()) rows.emplace_back("user_data", m.user_data);
  for (const auto& [key, value] : user_data.items()) {
    if (user_data.is_object()) rows.emplace_back("user_data " + key, value.dump());
  }
  return rows;
}

std::string inspect_text(const zero::CheckpointReader& reader) {
  const zero::CheckpointManifest& m = reader.manifest();
  const Sizes sizes = sizes_of(m);
  std::string text =
      concat(reader.folder(), ": format ", m.format, ", by version ", m.version, "\n");
  text += concat("step ", m.step, ": ", mem::counted(m.applied_steps, "update"), ", ",
                 m.skipped_steps, " skipped");
  text += m.micro_step == 0 ? "\n"
                            : concat("; ", m.micro_step, " of ", m.accumulation_steps,
                                     " micro-steps of the next one\n");
  text += concat("written by ", mem::counted(m.world_size, "rank"), " at stage ", m.stage, ": ",
                 mem::counted(sizes.files, "byte"), " in ",
                 mem::counted(static_cast<std::int64_t>(m.files.size()), "file"), "\n");
  text += concat("loss scale ", number(m.scaler.scale), m.scaler.dynamic ? ", dynamic" : ", fixed",
                 "\n");
  text += m.scheduler.empty()
              ? std::string("no scheduler\n")
              : concat("scheduler ", m.scheduler, " at t = ", m.scheduler_position, "\n");
  for (std::size_t g = 0; g < m.groups.size(); ++g) {
    text += concat("group ", g, ": ", group_text(m.groups[g]), "\n");
  }
  if (!m.user_data.empty()) text += concat("user data ", m.user_data, "\n");

  mem::TextTable kinds({"state", "bytes"});
  for (int k = 0; k < zero::kStateKindCount; ++k) {
    const std::int64_t bytes = sizes.by_kind[static_cast<std::size_t>(k)];
    if (bytes == 0) continue;
    kinds.add(
        {std::string(zero::state_kind_name(static_cast<zero::StateKind>(k))), mem::grouped(bytes)});
  }
  text += "\n" + kinds.text() + "\n";

  std::int64_t elements = 0;
  mem::TextTable params({"parameter", "shape", "dtype", "group", "updates", "state"});
  for (const zero::CheckpointParam& p : m.params) {
    elements += p.numel();
    params.add({p.name, shape_text(p.shape), std::string(zero::dtype_name(p.dtype)),
                std::to_string(p.group), std::to_string(p.step_count), state_of(p)});
  }
  return text + params.text() +
         concat(mem::counted(static_cast<std::int64_t>(m.params.size()), "parameter"), ", ",
                mem::counted(elements, "element"), "\n");
}

Json inspect_json(const zero::CheckpointReader& reader) {
  const zero::CheckpointManifest& m = reader.manifest();
  const Sizes sizes = sizes_of(m);
  Json bytes;
  for (int k = 0; k < zero::kStateKindCount; ++k) {
    bytes[std::string(zero::state_kind_name(static_cast<zero::StateKind>(k)))] =
        sizes.by_kind[static_cast<std::size_t>(k)];
  }
  bytes["files"] = sizes.files;
  Json files = Json::array();
  for (const zero::CheckpointFile& file : m.files) {
    Json tensors = Json::array();
    for (const auto& entry : file.entries) {
      tensors.push_back({{"kind", zero::state_kind_name(entry.range.kind)},
                         {"param", entry.range.param},
                         {"part", entry.range.part},
                         {"range", {entry.range.begin, entry.range.end}},
                         {"dtype", zero::dtype_name(entry.range.dtype)}});
    }
    char xxh3[17];
    std::snprintf(xxh3, sizeof xxh3, "%016llx", static_cast<unsigned long long>(file.xxh3));
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"xxh3", xxh3},
                     {"tensors", std::move(tensors)}});
  }
  return {{"folder", reader.folder()},
          {"note", reader.note()},
          {"format", m.format},
          {"version", m.version},
          {"step", m.step},
          {"world_size", m.world_size},
          {"stage", m.stage},
          {"applied_steps", m.applied_steps},
          {"skipped_steps", m.skipped_steps},
          {"micro_step", m.micro_step},
          {"accumulation_steps", m.accumulation_steps},
          {"scaler",
           {{"dynamic", m.scaler.dynamic},
            {"scale", m.scaler.scale},
            {"iteration", m.scaler.iteration},
            {"last_overflow", m.scaler.last_overflow},
            {"hysteresis_left", m.scaler.hysteresis_left}}},
          {"scheduler", {{"type", m.scheduler}, {"position", m.scheduler_position}}},
          {"groups", list_of(m.groups)},
          {"user_data", parsed(m.user_data)},
          {"config", parsed(m.config)},
          {"bytes", std::move(bytes)},
          {"params", list_of(m.params)},
          {"files", std::move(files)}};
}

}  // namespace ckpt
