# zero-config diff: what differs in effect, not in words.
source "$(dirname "${BASH_SOURCE[0]}")/config_common.inc"

differ() {  # A B FLAGS... -- LINE...
  local arguments=()
  while [[ $1 != -- ]]; do
    arguments+=("$1")
    shift
  done
  shift
  ends_with 1 diff "${arguments[@]}"
  [[ ! -s errors ]] || fail "diff ${arguments[*]}: on standard error: $(cat errors)"
  diff <(printf '%s\n' "$@" | sort) <(sort said) > difference ||
    fail "diff ${arguments[*]}: other lines than expected: $(cat difference)"
}
same() {  # A B FLAGS...
  ends_with 0 diff "$@"
  [[ ! -s said ]] || fail "diff $*: no difference, and: $(cat said)"
}

same plain.json plain.json
same plain.json plain.json --world-size 4

# Other words for the same.
cat > other.json <<'JSON'
{
  // "stage": 1 would be another one
  "zero_optimization": {"stage": 2.0, "cpu_offload": false, "reduce_bucket_size": "5e8"},
  "optimizer": {"params": {"lr": 0.0003, "betas": [0.9, 0.999]}, "type": "adamw"},
  "gradient_clipping": 5e-1,
  "train_micro_batch_size_per_gpu": 2,
  "train_batch_size": 16,
  "_note": "the same",
  "tensorboard": {"enabled": true},
  "bf16": {"enabled": false}
}
JSON
same plain.json other.json
same other.json plain.json --world-size 8

cat > changed.json <<'JSON'
{
  "train_batch_size": 16,
  "gradient_accumulation_steps": 2,
  "optimizer": {"type": "SGD", "params": {"lr": 3e-4}},
  "scheduler": {"type": "WarmupLR"},
  "zero_optimization": {"stage": 3}
}
JSON
differ plain.json changed.json -- \
  'train_micro_batch_size_per_gpu: 2 -> null' 'gradient_accumulation_steps: null -> 2' \
  'gradient_clipping: 0.5 -> 1' 'optimizer.type: "AdamW" -> "SGD"' \
  'optimizer.params.betas: [0.9, 0.999] -> (not there)' \
  'optimizer.params.eps: 1e-08 -> (not there)' \
  'optimizer.params.bias_correction: true -> (not there)' \
  'optimizer.params.adam_w_mode: true -> (not there)' \
  'scheduler.type: null -> "WarmupLR"' \
  'scheduler.params.warmup_min_lr: (not there) -> 0' \
  'scheduler.params.warmup_max_lr: (not there) -> null' \
  'scheduler.params.warmup_num_steps: (not there) -> 1000' \
  'scheduler.params.warmup_type: (not there) -> "log"' \
  'zero_optimization.stage3_model_persistence_threshold: (not there) -> 9223372036854775807' \
  'zero_optimization.stage3_param_persistence_threshold: (not there) -> 100000' \
  'zero_optimization.stage3_prefetch_bucket_size: (not there) -> 50000000' \
  'zero_optimization.stage: 2 -> 3' 'zero_optimization.overlap_comm: false -> true'
# With ranks both have the same batch sizes.
ends_with 1 diff plain.json changed.json --world-size 4
for key in train_batch_size micro_batch accumulation; do lacks said $key; done

# The other way round.
sed 's/0\.5/0.25/' plain.json > clipped.json
differ plain.json clipped.json -- 'gradient_clipping: 0.5 -> 0.25'
differ clipped.json plain.json -- 'gradient_clipping: 0.25 -> 0.5'

# Facts count for both files.
sed 's/3e-4/"auto"/' plain.json > open.json
same plain.json open.json --fact lr=3e-4
differ plain.json open.json --fact lr=1e-4 -- 'optimizer.params.lr: 3e-04 -> 1e-04'
sed 's/, "params".*}}/}/; s/"gradient_clipping": 0.5/"gradient_clipping": 0.5, "fp16": {"enabled": "auto"}/' \
  plain.json > switch.json
differ plain.json switch.json -- 'optimizer.params.lr: 3e-04 -> 0.001' 'fp16.enabled: false -> "auto"' \
  'fp16.loss_scale: (not there) -> 0' 'fp16.initial_scale_power: (not there) -> 16' \
  'fp16.loss_scale_window: (not there) -> 1000' 'fp16.hysteresis: (not there) -> 2' \
  'fp16.consecutive_hysteresis: (not there) -> false' 'fp16.min_loss_scale: (not there) -> 1'
# Keys without effect make no difference.
sed 's/"gradient_clipping": 0.5/"gradient_clipping": 0.5, "steps_per_print": 3, "dump_state": true/' \
  plain.json > idle.json
same plain.json idle.json

# What explain writes is no other configuration.
"$config" explain template.json "${needed[@]}" --world-size 2 > explained.json
same template.json explained.json "${needed[@]}" --world-size 2

# Refused: which of the two is named; both, if both are.
echo '{"zero_optimisation": {}}' > typo.json
refused diff plain.json typo.json -- 'typo.json:1:2: zero_optimisation' zero_optimization
refused diff typo.json plain.json -- 'typo.json:1:2: zero_optimisation'
refused diff plain.json no_such.json -- no_such.json
refused diff no_such.json plain.json -- no_such.json
refused diff open.json plain.json -- 'open.json:' 'the fact lr'
refused diff plain.json -- B
refused diff plain.json other.json --world-size 3 -- 'plain.json: ' 'world size 3'
refused diff plain.json other.json --json -- '--json'
