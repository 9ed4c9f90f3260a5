#include "tools/mem_run.hpp"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "zero/error.hpp"

namespace mem {

using nlohmann::json;
using zero::detail::concat;

namespace {

// Where something is wrong: "run.jsonl:12: ".
struct Line {
  std::string place;
  json value;

  [[noreturn]] void refuse(const std::string& what) const {
    throw std::runtime_error(place + what);
  }
  std::int64_t whole(const json& object, const std::string& key, const std::string& path) const {
    if (!object.is_object() || !object.contains(key)) refuse("\"" + path + "\" is missing");
    const json& number = object[key];
    if (!number.is_number_integer() || number < 0 || number > INT64_MAX) {
      refuse(concat("\"", path, "\" is ", number.dump(), ", must be a whole number, 0 or more"));
    }
    return number.get<std::int64_t>();
  }
  zero::Ledger::Account account(const std::string& name) const {
    if (!value.contains(name)) refuse("\"" + name + "\" is missing");
    return {whole(value[name], "current", name + ".current"),
            whole(value[name], "peak", name + ".peak")};
  }
  Figures figures() const {
    Figures figures;
    for (int c = 0; c < zero::kCategoryCount; ++c) {
      figures.categories[static_cast<std::size_t>(c)] =
          account(std::string(zero::category_name(static_cast<zero::Category>(c))));
    }
    figures.total = account("total");
    return figures;
  }
};

Line parse_line(const std::string& text, const std::string& place, bool ended) {
  Line line{place, json::parse(text, nullptr, false)};
  if (line.value.is_discarded()) {
    line.refuse(ended ? "no JSON; is this what zero-train --json wrote?"
                      : "the line is cut off: the run did not end, or its disk was full");
  }
  if (!line.value.is_object() || !line.value.contains("type") || !line.value["type"].is_string()) {
    line.refuse("no object with a \"type\"; is this what zero-train --json wrote?");
  }
  return line;
}

}  // namespace

Run read_run(std::istream& in, const std::string& name) {
  std::optional<Figures> plan;
  std::int64_t planned_ranks = 0;
  bool ended = false;
  std::map<std::int64_t, Figures> ranks;
  std::string text;
  int number = 0;
  while (std::getline(in, text)) {
    const Line line = parse_line(text, concat(name, ":", ++number, ": "), !in.eof());
    const std::string type = line.value["type"];
    if (type == "plan") {
      if (plan) line.refuse("a second plan: the file holds more than one run");
      if (!line.value.contains("ranks")) {
        line.refuse("\"ranks\" is missing: written by an older zero-train; run it again");
      }
      planned_ranks = line.whole(line.value, "ranks", "ranks");
      if (planned_ranks == 0) line.refuse("\"ranks\" is 0, must be 1 or more");
      plan = line.figures();
    } else if (type == "memory") {
      const std::int64_t rank = line.whole(line.value, "rank", "rank");
      if (!ranks.emplace(rank, line.figures()).second) {
        line.refuse(concat("rank ", rank, " is there twice: the file holds more than one run"));
      }
    } else if (type == "final") {
      if (ended) line.refuse("a second final line: the file holds more than one run");
      ended = true;
    }
  }
  if (in.bad()) throw std::runtime_error(name + ": cannot be read");
  if (number == 0) throw std::runtime_error(name + ": the file is empty");
  if (ranks.empty()) {
    throw std::runtime_error(name + ": no line of type \"memory\": the run did not end");
  }
  if (!plan) {
    throw std::runtime_error(name +
                             ": no line of type \"plan\": written by an older zero-train; run it "
                             "again");
  }
  Run run{*plan, {}};
  for (std::int64_t rank = 0; rank < planned_ranks; ++rank) {
    const auto found = ranks.find(rank);
    if (found == ranks.end()) {
      throw std::runtime_error(concat(name, ": the memory of rank ", rank,
                                      " is missing, the plan is for ", planned_ranks,
                                      planned_ranks == 1 ? " rank" : " ranks"));
    }
    run.ranks.push_back(found->second);
  }
  if (const std::int64_t last = ranks.rbegin()->first; last >= planned_ranks) {
    throw std::runtime_error(concat(name, ": the memory of rank ", last,
                                    " is there, the plan is for ", planned_ranks,
                                    planned_ranks == 1 ? " rank" : " ranks"));
  }
  if (!ended) {
    throw std::runtime_error(name + ": no line of type \"final\": the run did not end");
  }
  return run;
}

Run read_run(const std::string& path) {
  std::ifstream file(path);
  if (!file || (file.peek() == EOF && !file.eof())) {
    throw std::runtime_error(path + ": cannot be read");
  }
  file.clear();
  return read_run(file, path);
}

}  // namespace mem
