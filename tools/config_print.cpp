#include "tools/config_print.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace config_tool {
namespace {

using Json = nlohmann::ordered_json;

Json remarks_json(const std::vector<zero::Remark>& remarks) {
  Json list = Json::array();
  for (const zero::Remark& remark : remarks) {
    list.push_back({{"path", remark.path}, {"message", remark.message}});
  }
  return list;
}

// One remark a line, behind `prefix`. A path of the file may hold any character.
void write_remarks(std::ostream& out, const std::string& prefix, const zero::Config& config) {
  const auto write = [&](const char* kind, const std::vector<zero::Remark>& remarks) {
    for (const zero::Remark& remark : remarks) {
      std::string line = to_string(remark);
      for (char& c : line) {
        if (static_cast<unsigned char>(c) < 0x20) c = '?';
      }
      out << prefix << kind << ": " << line << '\n';
    }
  };
  write("warning", config.warnings());
  write("note", config.notes());
}

}  // namespace

std::string check_json(const zero::Config& config) {
  Json effective = Json::object();
  for (const zero::EffectiveValue& value : config.effective()) {
    effective[value.path] = Json::parse(value.value);
  }
  const Json result = {{"stage", config.zero.stage},
                       {"effective", effective},
                       {"warnings", remarks_json(config.warnings())},
                       {"notes", remarks_json(config.notes())}};
  // Names of files may be any bytes.
  return result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string check_text(const zero::Config& config, const std::string& path) {
  std::ostringstream out;
  out << path << ": accepted: stage " << config.zero.stage << ", train_batch_size "
      << config.train_batch_size.value() << " = " << config.micro_batch_size.value() << " x "
      << config.accumulation_steps.value() << " x "
      << *config.train_batch_size / *config.micro_batch_size / *config.accumulation_steps
      << " ranks\n";
  write_remarks(out, "  ", config);
  return out.str();
}

std::string explain_text(const zero::Config& config) {
  std::ostringstream out;
  out << config.explained();
  write_remarks(out, "// ", config);
  return out.str();
}

std::string diff_text(const zero::Config& a, const zero::Config& b) {
  std::map<std::string, std::string> of_a;
  std::ostringstream out;
  for (const zero::EffectiveValue& value : a.effective()) {
    if (value.acts) of_a[value.path] = value.value;
  }
  for (const zero::EffectiveValue& value : b.effective()) {
    if (!value.acts) continue;
    const auto found = of_a.find(value.path);
    if (found == of_a.end()) {
      out << value.path << ": (not there) -> " << value.value << '\n';
      continue;
    }
    if (found->second != value.value) {
      out << value.path << ": " << found->second << " -> " << value.value << '\n';
    }
    of_a.erase(found);
  }
  for (const auto& [path, value] : of_a) out << path << ": " << value << " -> (not there)\n";
  return out.str();
}

}  // namespace config_tool
