// Seeded mutations of valid files: every text gives a Config or a ConfigError, nothing else.
#include <algorithm>
#include <random>
#include <vector>

#include "tests/config_fixtures.hpp"
#include "tests/config_property.hpp"

namespace zero {
namespace {

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> kSeeds = {
      "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 4,\n"
      " \"gradient_accumulation_steps\": 4, // comment\n \"gradient_clipping\": 1.0,\n"
      " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 3e-4, \"betas\": [0.9, 0.95],\n"
      "  \"eps\": 1e-8, \"weight_decay\": 0.1}},\n \"bf16\": {\"enabled\": true},\n"
      " \"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 5e8}}",
      "{\"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"initial_scale_power\": 16,\n"
      "  \"loss_scale_window\": \"1e3\", \"hysteresis\": 2, \"min_loss_scale\": 0.5},\n"
      " /* block */ \"zero_optimization\": {\"stage\": 3, \"stage3_prefetch_bucket_size\": 5e7,\n"
      "  \"stage3_param_persistence_threshold\": 100000.0, \"overlap_comm\": null,\n"
      "  \"offload_optimizer\": {\"device\": \"cpu\"}}, \"steps_per_print\": 10}",
      "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.5}}, \"_note\": [{\"a\": []}],\n"
      " \"data_types\": {\"grad_accum_dtype\": \"fp32\"},\n"
      " \"runtime\": {\"reproducible\": true, \"timeout_s\": 1e2}}",
      "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\",\n"
      " \"gradient_accumulation_steps\": \"auto\", \"gradient_clipping\": \"auto\",\n"
      " \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": \"auto\", \"betas\": \"auto\",\n"
      "  \"eps\": \"auto\", \"weight_decay\": \"auto\", \"torch_adam\": true}},\n"
      " \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": \"auto\",\n"
      "  \"warmup_max_lr\": [0.1, 0.2], \"warmup_num_steps\": \"auto\",\n"
      "  \"total_num_steps\": \"auto\"}}, \"fp16\": {\"enabled\": \"auto\"},\n"
      " \"amp\": {\"enabled\": false}, \"tensorboard\": {}, \"zero_optimization\": {\n"
      "  \"cpu_offload\": true, \"sub_group_size\": 1e9, \"zero_hpz_partition_size\": 1,\n"
      "  \"stage3_max_live_parameters\": \"1e9\", \"round_robin_gradients\": true}}",
      "{\"zero_optimization\": true, \"scheduler\": {\"type\": \"OneCycle\", \"params\": {\n"
      "  \"cycle_min_lr\": 0.1, \"cycle_max_lr\": 0.5, \"cycle_momentum\": false,\n"
      "  \"decay_step_size\": 5, \"decay_lr_rate\": 0.5}},\n"
      " \"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}}}",
  };
  return kSeeds;
}

const std::vector<std::string>& pieces() {
  static const std::vector<std::string> kPieces = {"{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ",",
                                                   ":",
                                                   "\"",
                                                   "\\",
                                                   "\\u0000",
                                                   "\\ud800",
                                                   "//",
                                                   "/*",
                                                   "*/",
                                                   "null",
                                                   "true",
                                                   "false",
                                                   "1e999",
                                                   "-0",
                                                   "1e-999",
                                                   "5e8",
                                                   "\n",
                                                   "\xff",
                                                   "\xef\xbb\xbf",
                                                   "auto",
                                                   "\"auto\"",
                                                   "\"\"",
                                                   "\"stage\": 1,",
                                                   "0.1.2",
                                                   "--1",
                                                   "9223372036854775808",
                                                   "\"bfloat16\": {\"enabled\": false},",
                                                   "\xc3\xa9",
                                                   "[[[[[[[[",
                                                   "1e18"};
  return kPieces;
}

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::string next() {
    std::string text = seeds()[below(seeds().size())];
    const std::size_t changes = 1 + below(3);
    for (std::size_t i = 0; i < changes; ++i) change(text);
    return text;
  }

  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

 private:
  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(text.size() - at, 24) + 1);
    switch (below(6)) {
      case 0:
        text.insert(at, pieces()[below(pieces().size())]);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 4:
        text.replace(at, length, pieces()[below(pieces().size())]);
        break;
      case 5:
        if (below(8) == 0) text.resize(at);
        break;
    }
  }

  std::mt19937 random_;
};

TEST(ConfigFuzz, MutatedFilesAreTakenOrRefused) {
  Mutator mutator(20240607);
  int taken = 0;
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string text = mutator.next();
    const Facts facts = i % 2 == 0 ? Facts() : config_test::all_facts();
    const config_test::Outcome outcome = config_test::read_any(text, facts);
    ++(outcome.taken ? taken : refused);
    ASSERT_EQ(outcome.broken, "") << text;
  }
  // Both ways are well trodden.
  EXPECT_GT(taken, 300);
  EXPECT_GT(refused, 500);
}

TEST(ConfigFuzz, MutatedPatchesAndBatchesAreTakenOrRefused) {
  Mutator mutator(77);
  Facts facts = config_test::all_facts();
  facts.world_size.reset();
  for (int i = 0; i < 1500; ++i) {
    Config config = Config::parse(seeds()[mutator.below(seeds().size())], "file.json", facts);
    const std::string before = config.json();
    try {
      config.merge(mutator.next());
    } catch (const ConfigError&) {
      ASSERT_EQ(config.json(), before);
    }
    try {
      config.set("zero_optimization.stage", mutator.next().substr(0, mutator.below(8)));
    } catch (const ConfigError&) {
    }
    try {
      config.resolve_batch(1 + static_cast<int>(mutator.below(9)));
      EXPECT_EQ(*config.train_batch_size % *config.micro_batch_size, 0);
    } catch (const ConfigError&) {
    }
  }
}

}  // namespace
}  // namespace zero
