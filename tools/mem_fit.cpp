#include "tools/mem_fit.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/mem_format.hpp"
#include "zero/error.hpp"

namespace mem {

using zero::detail::concat;

FitResult fit_budget(const Subject& subject, const std::string& budget, int ranks) {
  FitResult result;
  try {
    result.budget_bytes = zero::parse_bytes(budget);
  } catch (const zero::ConfigError& error) {
    throw zero::ConfigError(concat("--budget: ", error.what()));
  }
  zero::Config config = subject.config;
  settle_batch(config, ranks);
  result.fit = zero::PartitionManager::fit(subject.model, config, ranks, result.budget_bytes,
                                           subject.activation_bytes, subject.plan_options);
  result.row.stage = result.fit.config.zero.stage;
  result.row.ranks = ranks;
  result.row.plan = result.fit.plan;
  result.row.activation_bytes = subject.activation_bytes;
  return result;
}

std::string fit_text(const Subject& subject, const FitResult& result) {
  const zero::Fit& fit = result.fit;
  const zero::ZeroSettings& sizes = fit.config.zero;
  std::string text = concat(subject.title, ": ", counted(subject.elems, "element"), " in ",
                            counted(static_cast<std::int64_t>(subject.model.units.size()), "unit"),
                            " on ", result.row.ranks, result.row.ranks == 1 ? " rank" : " ranks",
                            "\nbudget: ", gigabytes(result.budget_bytes), " GB (",
                            result.budget_bytes, " bytes) of each rank");
  if (subject.activation_bytes > 0) {
    text += concat(", ", gigabytes(subject.activation_bytes), " GB of it for activations");
  }
  text += concat(fit.fits ? "\n\nstage " : "\n\nNOTHING FITS; the smallest is stage ", sizes.stage,
                 fit.fits ? " fits" : "", ": peak ", result.row.peak_bytes(), " bytes, ",
                 fit.fits ? result.budget_bytes - result.row.peak_bytes()
                          : result.row.peak_bytes() - result.budget_bytes,
                 fit.fits ? " to spare" : " too many", "\n");
  for (const std::string& reason : fit.reasons) text += "  " + reason + "\n";
  text += concat("  buckets of ", std::min(sizes.reduce_bucket_size, sizes.allgather_bucket_size),
                 " elements");
  if (sizes.stage == 3) text += concat(", prefetch of ", sizes.prefetch_bucket_size);
  text += concat("\n\n", fit.fits ? "For the configuration file:\n" : "Its configuration:\n",
                 fit.json, "\n\n", plan_table({result.row}));
  return text;
}

nlohmann::ordered_json fit_json(const Subject& subject, const FitResult& result) {
  const zero::ZeroSettings& sizes = result.fit.config.zero;
  return {{"model", model_json(subject)},
          {"budget_bytes", result.budget_bytes},
          {"fits", result.fit.fits},
          {"stage", sizes.stage},
          {"reduce_bucket_size", sizes.reduce_bucket_size},
          {"allgather_bucket_size", sizes.allgather_bucket_size},
          {"stage3_prefetch_bucket_size", sizes.prefetch_bucket_size},
          {"patch", nlohmann::ordered_json::parse(result.fit.json)},
          {"reasons", result.fit.reasons},
          {"plan", row_json(result.row)}};
}

Chart fit_chart(const Subject& subject, const FitResult& result) {
  Chart chart = plan_chart(subject, {result.row});
  chart.title = subject.title + (result.fit.fits ? ", what fits" : ", nothing fits: the smallest");
  chart.budget_bytes = result.budget_bytes;
  return chart;
}

}  // namespace mem
