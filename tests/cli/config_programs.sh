# The other programs read the same files: zero-train settles "auto" by facts and flags, zero-mem
# plans without.
source "$(dirname "${BASH_SOURCE[0]}")/config_common.inc"

for i in {1..40}; do echo "line $i of a text that nobody has to understand"; done > text.txt
train=("$ZERO_BIN_DIR/zero-train" --config template.json --data text.txt --layers 1 --width 16
       --heads 2 --context 8)

"${train[@]}" --steps 1 --ranks 2 "${needed[@]}" --verbose > said 2> errors ||
  fail "zero-train with facts: $(cat errors)"
has said 'after 1 step'
for line in '  "train_batch_size": 16,  // follows from the batch sizes' \
            '      "lr": 2e-05,  // fact lr' '      "betas": [0.9, 0.95],  // fact betas' \
            '      "total_num_steps": 100  // fact total_steps' \
            '    "stage": 3,  // template.json:26:5' \
            '    "reduce_bucket_size": 256,  // fact hidden_size' \
            '    "overlap_comm": true,  // default'; do
  cat said errors > both
  grep -qxF -- "$line" both || fail "zero-train --verbose: '$line' is no line of: $(cat both)"
done
"${train[@]}" --steps 1 --ranks 2 "${needed[@]}" --quiet > said 2> errors
lacks said 'fact lr'
lacks errors 'fact lr'

# Flags are facts; what is left open is refused before anything is done.
code=0
"${train[@]}" --steps 1 --micro-batch 2 --accumulation 1 --fact lr=1e-3 > said 2> errors || code=$?
[[ $code == 2 && ! -s said ]] || fail "zero-train without facts: exit code $code: $(cat said)"
has errors 'the fact clipping'
has errors 'the fact warmup_steps'
for fact in lr micro_batch accumulation total_steps; do lacks errors "the fact $fact"; done
code=0
"${train[@]}" --steps 1 "${needed[@]}" --fact lrr=1 > said 2> errors || code=$?
[[ $code == 2 ]] || fail "zero-train with a wrong fact: exit code $code"
has errors 'lrr'

# Plans depend on none of it.
mem="$ZERO_BIN_DIR/zero-mem"
"$mem" plan --params 5e6 --ranks 2 --config template.json --stage 3 --json > said 2> errors ||
  fail "zero-mem plan with a template: $(cat errors)"
holds 'len(o["plans"]) == 1 and o["plans"][0]["stage"] == 3 and o["plans"][0]["peak_bytes"] > 0'
"$mem" fit --params 5e6 --ranks 2 --config template.json --budget 1GB > said 2> errors ||
  fail "zero-mem fit with a template: $(cat errors)"
has said 'fits'
# The type of the parameters is a fact of plans too.
"$mem" plan --params 1000 --ranks 1 --stage 0 --fact dtype=bf16 > said 2> errors
has said 'bf16'
code=0
"$mem" plan --params 1000 --fact dtype=bf16 --dtype fp16 > said 2> errors || code=$?
[[ $code == 2 ]] || fail "zero-mem with two types: exit code $code"
has errors 'contradicts'
# What "auto" came to is told; what belongs to the file's own stage is not.
"$mem" plan --params 1000 --ranks 1 --config template.json > said 2> errors
has errors 'note: zero_optimization.reduce_bucket_size: "auto" without the fact hidden_size'
lacks errors 'no effect at stage'

# Unmanaged accumulation: as many updates, the same weights, and what was planned at every stage.
echo '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3, "gradient_clipping": 1,
       "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}}' > managed.json
sed 's/{"train/{"managed_gradient_accumulation": false, "train/' managed.json > unmanaged.json
for stage in 0 1 2 3; do
  for config in managed unmanaged; do
    "$ZERO_BIN_DIR/zero-train" --config $config.json --data text.txt --layers 1 --width 16 --heads 2 \
      --context 8 --ranks 2 --steps 2 --stage $stage --quiet --json $config.jsonl > said 2> errors ||
      fail "zero-train at stage $stage, $config: $(cat errors)"
    grep -o '"weights_hash": *"[0-9a-f]*"' $config.jsonl > $config.hash || fail "no hash in $config.jsonl"
  done
  cmp managed.hash unmanaged.hash || fail "other weights at stage $stage"
done
