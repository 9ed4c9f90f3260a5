#include "tests/config_property.hpp"

#include "zero/error.hpp"

namespace zero::config_test {
namespace {

constexpr std::size_t kLongestMessage = 16000;

std::string values_of(const Config& config) {
  std::string all;
  for (const EffectiveValue& value : config.effective()) {
    all += value.path + " " + value.value + "\n";
  }
  return all;
}

}  // namespace

Facts all_facts() {
  Facts facts;
  facts.micro_batch = 2;
  facts.accumulation = 3;
  facts.lr = 0.5;
  facts.weight_decay = 0.25;
  facts.betas = {0.5, 0.75};
  facts.eps = 1e-6;
  facts.clipping = 2;
  facts.total_steps = 100;
  facts.warmup_steps = 10;
  facts.warmup_min_lr = {0.125};
  facts.warmup_max_lr = {0.5};
  facts.hidden_size = 64;
  facts.dtype = DType::kBFloat16;
  facts.world_size = 4;
  return facts;
}

Outcome read_any(std::string_view text, const Facts& facts) {
  Outcome outcome;
  try {
    const Config config = Config::parse(text, "file.json", facts);
    outcome.taken = true;
    const std::string values = values_of(config);
    const std::string explained = config.explained();
    try {
      const Config again = Config::parse(explained, "explained");
      // Not in the values: what follows a stage that is still to be chosen.
      for (int stage = 0; stage <= 3; ++stage) {
        if (stage != config.zero.stage && !config.runtime.choose_stage) continue;
        Config a = config;
        Config b = again;
        a.zero.stage = b.zero.stage = stage;
        if (a.zero.overlaps() == b.zero.overlaps()) continue;
        outcome.broken = "explained, it overlaps otherwise:\n" + explained;
      }
      if (values_of(again) != values) {
        outcome.broken = "explained, it is another one:\n" + values + "\n" + values_of(again);
      }
      const Config own = Config::parse(config.json(), "json", facts);
      if (values_of(own) != values || own.warnings().size() != config.warnings().size()) {
        outcome.broken = "its own JSON is another one:\n" + config.json();
      }
    } catch (const ConfigError& error) {
      outcome.broken = std::string("written out, it is refused: ") + error.what() + "\n" +
                       explained + "\n" + config.json();
    }
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    if (message.size() > kLongestMessage) outcome.broken = "the message has no bound";
    if (message.find("file.json:") == message.npos && message.find("facts:") == message.npos) {
      outcome.broken = "the message names no place: " + message;
    }
  }
  return outcome;
}

}  // namespace zero::config_test
