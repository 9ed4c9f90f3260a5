#include "src/checkpoint_json.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "src/checkpoint_seal.hpp"
#include "zero/error.hpp"

namespace zero::checkpoint {

namespace {

using Json = nlohmann::ordered_json;

// --- Writing. One line for each thing, so that manifests can be read and compared. ---

Json number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

Json embedded(const std::string& text, const char* what) {
  if (text.empty()) return nullptr;
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw CheckpointError(
        detail::concat("the ", what, " of a checkpoint is no JSON: ", error.what()));
  }
}

std::string line(const Json& json) {
  try {
    return json.dump();
  } catch (const Json::type_error&) {
    throw CheckpointError("a checkpoint holds text in UTF-8 only; something else is at \uFFFD in " +
                          json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

template <class Row, class ToText>
std::string lines(const std::vector<Row>& rows, ToText to_text) {
  std::string text = "[";
  for (const Row& row : rows) text += (&row == rows.data() ? "\n" : ",\n") + to_text(row);
  return text + "]";
}

std::string entry_text(const CheckpointFile::Entry& entry) {
  Json json = {{"kind", state_kind_name(entry.range.kind)},
               {"param", entry.range.param},
               {"range", {entry.range.begin, entry.range.end}},
               {"dtype", dtype_name(entry.range.dtype)},
               {"offset", entry.offset}};
  if (!entry.range.part.empty()) json["part"] = entry.range.part;
  return line(json);
}

std::string file_text(const CheckpointFile& file) {
  std::string blocks;
  blocks.reserve(16 * file.block_xxh3.size());
  for (const std::uint64_t block : file.block_xxh3) blocks += hex(block);
  std::string text = line({{"name", file.name},
                           {"bytes", file.bytes},
                           {"xxh3", hex(file.xxh3)},
                           {"block_bytes", file.block_bytes},
                           {"block_xxh3", blocks}});
  text.pop_back();  // the object stays open
  return text + ",\"tensors\":" + lines(file.entries, entry_text) + "}";
}

std::string param_text(const CheckpointParam& param) {
  return line({{"name", param.name},
               {"shape", param.shape},
               {"dtype", dtype_name(param.dtype)},
               {"group", param.group},
               {"has_state", param.has_state},
               {"requires_grad", param.requires_grad},
               {"step_count", param.step_count},
               {"contributions", param.contributions},
               {"touched", param.touched}});
}

std::string group_text(const ParamGroup& group) {
  return line({{"lr", number(group.lr)},
               {"beta1", number(group.beta1)},
               {"beta2", number(group.beta2)},
               {"eps", number(group.eps)},
               {"weight_decay", number(group.weight_decay)}});
}

// --- Reading. ---

// A value of a JSON document and the way to it, for errors.
class At {
 public:
  At(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  At operator[](const char* key) const {
    const auto at = json_.is_object() ? json_.find(key) : json_.end();
    if (!json_.is_object() || at == json_.end()) wrong(detail::concat("\"", key, "\" is missing"));
    return {*at, detail::concat(path_, " ", key)};
  }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }

  template <class Int>
  Int integer() const {
    if (!json_.is_number_integer()) wrong("it is no integer");
    if (json_.is_number_unsigned() &&
        json_.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      wrong("it is too large");
    }
    const auto value = json_.get<std::int64_t>();
    if (value < std::numeric_limits<Int>::min() || value > std::numeric_limits<Int>::max()) {
      wrong("it is too large");
    }
    return static_cast<Int>(value);
  }
  bool boolean() const {
    if (!json_.is_boolean()) wrong("it is neither true nor false");
    return json_.get<bool>();
  }
  const std::string& text() const {
    if (!json_.is_string()) wrong("it is no text");
    return json_.get_ref<const std::string&>();
  }
  double number() const {
    if (json_.is_number()) return json_.get<double>();
    if (text() == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text() != "inf" && text() != "-inf") wrong("it is no number");
    return (text() == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
  }
  DType dtype() const {
    const auto found = dtype_from_name(text());
    if (!found) wrong("it is no dtype");
    return *found;
  }
  std::string embedded() const { return json_.is_null() ? "" : json_.dump(); }

  template <class Read>
  auto each(Read read) const {
    if (!json_.is_array()) wrong("it is no list");
    std::vector<std::invoke_result_t<Read, At>> all;
    all.reserve(json_.size());
    for (const Json& item : json_) {
      all.push_back(read(At(item, detail::concat(path_, "[", all.size(), "]"))));
    }
    return all;
  }
  [[noreturn]] void wrong(const std::string& why) const {
    throw CheckpointError(detail::concat(path_, ": ", why));
  }

 private:
  const Json& json_;
  std::string path_;
};

StateKind read_kind(const At& at) {
  for (int k = 0; k < kStateKindCount; ++k) {
    if (at.text() == state_kind_name(static_cast<StateKind>(k))) return static_cast<StateKind>(k);
  }
  at.wrong("it is no kind of state");
}

CheckpointFile::Entry read_entry(const At& at) {
  const auto range = at["range"].each([](const At& x) { return x.integer<std::int64_t>(); });
  if (range.size() != 2) at["range"].wrong("it is not begin and end");
  return {{at["param"].text(), read_kind(at["kind"]), range[0], range[1], at["dtype"].dtype(),
           at.has("part") ? at["part"].text() : ""},
          at["offset"].integer<std::int64_t>()};
}

CheckpointFile read_file_row(const At& at) {
  CheckpointFile file;
  file.name = at["name"].text();
  file.bytes = at["bytes"].integer<std::int64_t>();
  file.xxh3 = parse_hex(at["xxh3"].text(), file.name);
  file.block_bytes = at["block_bytes"].integer<std::int64_t>();
  const std::string_view blocks = at["block_xxh3"].text();
  for (std::size_t i = 0; i < blocks.size(); i += 16) {
    file.block_xxh3.push_back(parse_hex(blocks.substr(i, 16), file.name));
  }
  file.entries = at["tensors"].each(read_entry);
  return file;
}

CheckpointParam read_param(const At& at) {
  return {at["name"].text(),
          at["shape"].each([](const At& x) { return x.integer<std::int64_t>(); }),
          at["dtype"].dtype(),
          at["group"].integer<int>(),
          at["has_state"].boolean(),
          at["requires_grad"].boolean(),
          at["step_count"].integer<std::int64_t>(),
          at["contributions"].integer<std::int32_t>(),
          at["touched"].boolean()};
}

ParamGroup read_group(const At& at) {
  return {at["lr"].number(), at["beta1"].number(), at["beta2"].number(), at["eps"].number(),
          at["weight_decay"].number()};
}

Json parse(std::span<const std::byte> text, const std::string& where) {
  try {
    return Json::parse(unsealed(text, where));
  } catch (const Json::exception& error) {
    throw CheckpointError(detail::concat(where, ": ", error.what()));
  }
}

}  // namespace

void check_user_data(const std::string& text) { embedded(text, "user_data"); }

std::string manifest_text(const CheckpointManifest& m) {
  const Json scaler = {{"dynamic", m.scaler.dynamic},
                       {"scale", number(m.scaler.scale)},
                       {"iteration", m.scaler.iteration},
                       {"last_overflow", m.scaler.last_overflow},
                       {"hysteresis_left", m.scaler.hysteresis_left}};
  const Json scheduler = {{"type", m.scheduler},
                          {"settings", m.scheduler_settings},
                          {"position", m.scheduler_position}};
  std::string text = "{";
  const auto row = [&](const char* key, const std::string& value) {
    text += detail::concat("\"", key, "\": ", value, ",\n");
  };
  row("format", line(m.format));
  row("version", line(m.version));
  row("step", line(m.step));
  row("world_size", line(m.world_size));
  row("stage", line(m.stage));
  row("has_moments", line(m.has_moments));
  row("applied_steps", line(m.applied_steps));
  row("skipped_steps", line(m.skipped_steps));
  row("micro_step", line(m.micro_step));
  row("accumulation_steps", line(m.accumulation_steps));
  row("window", line(m.window));
  row("scaler", line(scaler));
  row("scheduler", line(scheduler));
  row("groups", lines(m.groups, group_text));
  row("initial_groups", lines(m.initial_groups, group_text));
  row("groups_by_hand", line(m.groups_by_hand));
  row("config", line(embedded(m.config, "configuration")));
  check_user_data(m.user_data);
  row("user_data", line(m.user_data));  // as it is: a number in it may be one that no JSON has
  row("params", lines(m.params, param_text));
  row("files", lines(m.files, file_text));
  return sealed(std::move(text));
}

CheckpointManifest parse_manifest(std::span<const std::byte> text, const std::string& where) {
  const Json json = parse(text, where);
  const At at(json, where);
  CheckpointManifest m;
  m.format = at["format"].integer<int>();
  if (m.format != CheckpointManifest::kFormat) {
    throw CheckpointError(detail::concat(where, ": it is of format ", m.format,
                                         "; this version of the library reads format ",
                                         CheckpointManifest::kFormat));
  }
  m.version = at["version"].text();
  m.step = at["step"].integer<std::int64_t>();
  m.world_size = at["world_size"].integer<int>();
  m.stage = at["stage"].integer<int>();
  m.has_moments = at["has_moments"].boolean();
  m.applied_steps = at["applied_steps"].integer<std::int64_t>();
  m.skipped_steps = at["skipped_steps"].integer<std::int64_t>();
  m.micro_step = at["micro_step"].integer<std::int64_t>();
  m.accumulation_steps = at["accumulation_steps"].integer<std::int64_t>();
  m.window = at["window"].text();
  const At scaler = at["scaler"];
  m.scaler = {scaler["dynamic"].boolean(), scaler["scale"].number(),
              scaler["iteration"].integer<std::int64_t>(),
              scaler["last_overflow"].integer<std::int64_t>(),
              scaler["hysteresis_left"].integer<std::int32_t>()};
  m.scheduler = at["scheduler"]["type"].text();
  m.scheduler_settings = at["scheduler"]["settings"].text();
  m.scheduler_position = at["scheduler"]["position"].integer<std::int64_t>();
  m.groups = at["groups"].each(read_group);
  m.initial_groups = at["initial_groups"].each(read_group);
  m.groups_by_hand = at["groups_by_hand"].boolean();
  m.config = at["config"].embedded();
  m.user_data = at["user_data"].text();
  m.params = at["params"].each(read_param);
  m.files = at["files"].each(read_file_row);
  return m;
}

std::string record_text(const Record& record) {
  if (record.failure.empty()) return sealed("{\"file\": " + file_text(record.file) + ",\n");
  // Whatever went wrong, its message gets through.
  return sealed("{\"failure\": " +
                Json(record.failure).dump(-1, ' ', false, Json::error_handler_t::replace) + ",\n");
}

Record parse_record(std::span<const std::byte> text, const std::string& where) {
  const Json json = parse(text, where);
  const At at(json, where);
  if (at.has("failure")) return {{}, at["failure"].text()};
  return {read_file_row(at["file"]), {}};
}

}  // namespace zero::checkpoint
