#include "tools/case_check.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

namespace zero::cases {
namespace {

std::string print(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

std::string print(bool value) { return value ? "true" : "false"; }

}  // namespace

bool holds(double got, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  if (tolerance == 0.0) return static_cast<float>(got) == static_cast<float>(expected);
  return std::abs(got - expected) <= tolerance * std::abs(expected);  // false for NaN
}

void Checker::check(const Expectation& expect, const StepResult* result, const std::string& place) {
  if (result != nullptr) {
    if (expect.applied) flag(place, "applied", result->applied, *expect.applied);
    if (expect.skipped) flag(place, "skipped", result->skipped, *expect.skipped);
    if (expect.loss_scale) number(place, "loss_scale", result->loss_scale, *expect.loss_scale);
    if (expect.next_loss_scale) {
      number(place, "next_loss_scale", result->next_loss_scale, *expect.next_loss_scale);
      number(place, "loss_scale()", optimizer_.loss_scale(), *expect.next_loss_scale);
    }
    if (expect.grad_norm) number(place, "grad_norm", result->grad_norm, *expect.grad_norm);
    if (!expect.lr.empty()) {
      if (result->lr.size() != file_.groups.size()) {
        report(place, "lr", std::to_string(result->lr.size()) + " values",
               std::to_string(file_.groups.size()));
      }
      for (std::size_t i = 0; i < result->lr.size() && i < file_.groups.size(); ++i) {
        number(place, "lr[" + std::to_string(i) + "]", result->lr[i],
               expect.lr_of_all ? expect.lr.front() : expect.lr[i]);
      }
    }
  }
  std::vector<float> got;
  for (const TensorExpectation& tensor : expect.tensors) {
    const CaseParameter& named =
        file_.parameters[static_cast<std::size_t>(tensor.expected.parameter)];
    const CaseParameter& owner = file_.parameters[static_cast<std::size_t>(named.storage)];
    got.assign(static_cast<std::size_t>(named.numel), std::nanf(""));
    optimizer_.read(owner.name, tensor.what, got);
    const auto expected = tensor.expected.value.elements(optimizer_.rank());
    for (std::size_t i = 0; expected && i < got.size(); ++i) {
      if (holds(got[i], (*expected)[i], file_.tolerance)) continue;
      number(place, tensor.key + " " + named.name + "[" + std::to_string(i) + "]", got[i],
             (*expected)[i]);
      break;
    }
  }
}

void Checker::check_bytes(const std::string& place) {
  const auto bounds = file_.expect_bytes.find(optimizer_.stage());
  if (bounds == file_.expect_bytes.end()) return;
  for (const ByteBound& bound : bounds->second) {
    const std::int64_t got = optimizer_.ledger().account(bound.category).current_bytes;
    if (bound.upper ? got <= bound.bytes : got == bound.bytes) continue;
    report(place, "bytes of " + std::string(category_name(bound.category)), std::to_string(got),
           (bound.upper ? "at most " : "") + std::to_string(bound.bytes));
  }
}

void Checker::check_boundary(bool boundary, bool last_micro_step, const std::string& place) {
  flag(place, "end of the step (gradient_accumulation_steps against micro_steps)", boundary,
       last_micro_step);
}

void Checker::number(const std::string& place, const std::string& what, double got,
                     double expected) {
  if (!holds(got, expected, file_.tolerance)) report(place, what, print(got), print(expected));
}

void Checker::flag(const std::string& place, const std::string& what, bool got, bool expected) {
  if (got != expected) report(place, what, print(got), print(expected));
}

void Checker::report(const std::string& place, const std::string& what, const std::string& got,
                     const std::string& expected) {
  if (mismatch_) return;
  mismatch_ = place + " rank " + std::to_string(optimizer_.rank()) + " " + what + ": got " + got +
              ", expected " + expected;
}

}  // namespace zero::cases
