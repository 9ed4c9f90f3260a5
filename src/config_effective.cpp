// The configuration in force, key by key, and as a file.
#include <algorithm>

#include "src/config_provenance.hpp"
#include "src/config_text.hpp"
#include "zero/config.hpp"

namespace zero {
namespace {

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// One object in another, a value a line.
class FileWriter {
 public:
  void add(const EffectiveValue& value) {
    std::vector<std::string> sections = parts_of(value.path);
    const std::string key = std::move(sections.back());
    sections.pop_back();
    const auto same = std::mismatch(open_.begin(), open_.end(), sections.begin(), sections.end());
    const auto kept = static_cast<std::size_t>(same.first - open_.begin());
    close_down_to(kept);
    for (std::size_t i = kept; i < sections.size(); ++i) {
      begin(sections[i]);
      text_ += '{';
      open_.push_back(sections[i]);
      first_ = true;
    }
    begin(key);
    text_ += value.value;
    comment_ = value.origin;
  }

  std::string take() {
    close_down_to(0);
    end_line();
    return "{" + text_ + "\n}\n";
  }

 private:
  void begin(const std::string& key) {
    if (!first_) text_ += ',';
    end_line();
    text_ += "\n" + indent() + detail::quoted(key) + ": ";
    first_ = false;
  }
  void close_down_to(std::size_t depth) {
    while (open_.size() > depth) {
      end_line();
      open_.pop_back();
      text_ += "\n" + indent() + "}";
      first_ = false;
    }
  }
  // The comment of the value before, after its comma.
  void end_line() {
    if (!comment_.empty()) text_ += "  // " + detail::shortened(comment_, 400);
    comment_.clear();
  }
  std::string indent() const { return std::string(2 * (open_.size() + 1), ' '); }

  std::string text_;
  std::string comment_;
  std::vector<std::string> open_;
  bool first_ = true;
};

// What made a value another one than was read.
std::string changed_by(const detail::SchemaRow& row, const detail::Provenance::Origin& origin,
                       const Config& config) {
  if (row.follows && origin.text == "default") return origin.text;
  if (row.follows && origin.value == detail::Value(std::string("auto"))) {
    return "the registered parameters";
  }
  if (config.runtime.choose_stage && row_section(row) == "zero_optimization") {
    return "runtime.choose_stage";
  }
  return "set by the program";
}

}  // namespace

std::vector<EffectiveValue> Config::effective() const {
  std::vector<EffectiveValue> values;
  const auto& rows = detail::config_schema();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const detail::SchemaRow& row = rows[i];
    if (!detail::is_value(row) || !detail::is_of_type(row, *this)) continue;
    const detail::Provenance::Origin& origin = provenance_->rows[i];
    const bool acts = row.field.get != nullptr;
    const detail::Value value = acts ? row.field.get(*this) : origin.value;
    if (origin.was_auto && detail::is_empty(value)) {
      values.push_back({row.path, "\"auto\"", origin.text, true});
      continue;
    }
    values.push_back({row.path, detail::value_text(row, value),
                      value == origin.value ? origin.text : changed_by(row, origin, *this),
                      detail::plays_a_part(row, *this)});
  }
  return values;
}

std::string Config::explained() const {
  FileWriter writer;
  for (const EffectiveValue& value : effective()) writer.add(value);
  return writer.take();
}

}  // namespace zero
