// The JSON lines of zero-train.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/train_report.hpp"
#include "zero/error.hpp"

namespace train {

namespace {

using zero::detail::concat;

std::string hex(std::uint64_t bits) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

std::string account(const zero::Ledger::Account& a) {
  return concat("{\"current\":", a.current_bytes, ",\"peak\":", a.peak_bytes, "}");
}

std::string categories(const RankAccount& a) {
  std::string members;
  for (int c = 0; c < zero::kCategoryCount; ++c) {
    members += concat(",\"", zero::category_name(static_cast<zero::Category>(c)),
                      "\":", account(a.memory[static_cast<std::size_t>(c)]));
  }
  return members + ",\"total\":" + account(a.total);
}

}  // namespace

std::string json_number(double value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

JsonLines::JsonLines(const std::string& path) : path_(path) {
  if (path.empty()) return;
  if (path == "-") {
    out_ = &std::cout;
    return;
  }
  file_.open(path);
  if (!file_) throw std::runtime_error("--json " + path + ": cannot be written");
  out_ = &file_;
}

// Flushed line by line, so that a run can be followed.
void JsonLines::write(const std::string& line) {
  if (out_ != nullptr) *out_ << line << std::endl;
}

void JsonLines::step(const StepLine& line) {
  if (out_ == nullptr) return;
  write(concat("{\"type\":\"step\",\"step\":", line.step, ",\"loss\":", json_number(line.loss),
               ",\"loss_bits\":\"", hex(std::bit_cast<std::uint64_t>(line.loss)),
               "\",\"grad_norm\":", json_number(line.grad_norm), ",\"loss_scale\":",
               json_number(line.loss_scale), ",\"skipped\":", line.skipped ? "true" : "false",
               ",\"lr\":", line.lr, ",\"ms\":", json_number(line.ms), "}"));
}

void JsonLines::resumed(const std::string& folder, std::int64_t steps) {
  write(concat("{\"type\":\"resumed\",\"folder\":", nlohmann::json(folder).dump(),
               ",\"steps\":", steps, "}"));
}

void JsonLines::saved(std::int64_t step, double ms) {
  write(concat("{\"type\":\"saved\",\"step\":", step, ",\"ms\":", json_number(ms), "}"));
}

void JsonLines::plan(int ranks, const RankAccount& planned) {
  write(concat("{\"type\":\"plan\",\"ranks\":", ranks, categories(planned), "}"));
}

void JsonLines::memory(int rank, const RankAccount& a) {
  write(concat("{\"type\":\"memory\",\"rank\":", rank, categories(a), "}"));
}

void JsonLines::traffic(int rank, std::int64_t steps, const RankAccount& a) {
  std::string line = concat("{\"type\":\"traffic\",\"rank\":", rank, ",\"steps\":", steps);
  for (int p = 0; p < zero::kPurposeCount; ++p) {
    const auto purpose = static_cast<zero::Purpose>(p);
    line += concat(",\"", zero::purpose_name(purpose), "\":{");
    for (int v = 0; v < zero::kVerbCount; ++v) {
      const auto verb = static_cast<zero::Verb>(v);
      const auto& count = a.traffic.at(purpose, verb);
      line += concat(v > 0 ? "," : "", "\"", zero::verb_name(verb), "\":{\"calls\":", count.calls,
                     ",\"bytes\":", count.bytes, "}");
    }
    line += "}";
  }
  write(concat(line, ",\"model_bytes\":", a.traffic.model_bytes(), "}"));
}

void JsonLines::final(const FinalLine& line) {
  write(concat("{\"type\":\"final\",\"val_loss\":", json_number(line.val_loss),
               ",\"val_loss_bits\":\"", hex(std::bit_cast<std::uint64_t>(line.val_loss)),
               "\",\"weights_hash\":\"", hex(line.weights_hash), "\",\"steps\":", line.steps,
               ",\"interrupted\":", line.interrupted ? "true" : "false", "}"));
  if (out_ != nullptr && !out_->good()) {
    throw std::runtime_error("--json " + path_ + ": not everything could be written");
  }
}

}  // namespace train
