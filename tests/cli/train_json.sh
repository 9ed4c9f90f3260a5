# The lines of --json, and the output for people.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"

"$train" "${tiny[@]}" --ranks 2 --steps 3 --json out > said 2> errors
number='-?[0-9.]+(e[-+]?[0-9]+)?'
step="^\{\"type\":\"step\",\"step\":[0-9]+,\"loss\":$number,\"loss_bits\":\"[0-9a-f]{16}\",\"grad_norm\":$number,\"loss_scale\":$number,\"skipped\":(true|false),\"lr\":$number,\"ms\":$number\}\$"
[[ $(grep -cE "$step" out) == 3 ]] || fail "step lines: $(cat out)"
account='\{"current":[0-9]+,"peak":[0-9]+\}'
memory='^\{"type":"memory","rank":[01]'
for category in params grads master_weights exp_avg exp_avg_sq bucket gather workspace total; do
  memory+=",\"$category\":$account"
done
[[ $(grep -cE "$memory\}\$" out) == 2 ]] || fail "memory lines: $(grep memory out)"
[[ $(grep -cE '^\{"type":"traffic","rank":[01],"steps":3,"gradients":\{.*"model_bytes":[0-9]+\}$' out) == 2 ]] ||
  fail "traffic lines: $(grep traffic out)"
[[ $(grep -cE "^\{\"type\":\"final\",\"val_loss\":$number,.*\"weights_hash\":\"[0-9a-f]{16}\"" out) == 1 ]] ||
  fail "final line: $(tail -1 out)"
[[ $(grep -cE "${memory/\"memory\",\"rank\":\[01\]/\"plan\",\"ranks\":2}\}\$" out) == 1 ]] ||
  fail "plan line: $(grep plan out)"
[[ $(wc -l < out) == 9 ]] || fail "unexpected lines: $(cat out)"
[[ $(wc -l < said) == 1 ]] || fail "--quiet says more than the final line: $(cat said)"
[[ $(wc -c < errors) == 0 ]] || fail "warnings: $(cat errors)"

# Dynamic loss scale: the first steps overflow at 2^16 times a large start, and are told.
"$train" "${tiny[@]}" --ranks 2 --steps 4 --dtype fp16 --set fp16.initial_scale_power=30 \
  --set fp16.hysteresis=1 --json half 2> errors
grep -q '"loss_scale":1073741824,"skipped":true' half || fail "no skip at scale 2^30: $(cat half)"
grep -q 'not finite.*loss scale 1.07374e+09' errors || fail "the skip is not told: $(cat errors)"

# Without --quiet: curve and tables; --steps 0 only evaluates.
unset 'tiny[-1]'
"$train" "${tiny[@]}" --ranks 2 --steps 3 > said 2> lines
for text in 'parameters (fp32' 'step)' 'exp_avg_sq' 'planned for each rank' 'planned  ' 'rank 1' 'gradients' 'model bytes per step' 'held-out loss'; do
  grep -qF "$text" said || fail "'$text' is missing: $(cat said)"
done
grep -q 'step 3/3  loss ' lines || fail "no progress lines: $(cat lines)"
"$train" "${tiny[@]}" --steps 0 --json - > said 2> errors
grep -q '"type":"final","val_loss":5\.' said || fail "an untrained model: $(cat said)"

# With --json - standard output is JSON lines and nothing else; people read standard error.
for flags in "" "--verbose" "--quiet"; do
  # shellcheck disable=SC2086  # no word or one
  "$train" "${tiny[@]}" --steps 2 --json - $flags > said 2> errors
  [[ $(grep -cvE '^\{"type":".*\}$' said) == 0 ]] || fail "no JSON line ($flags): $(cat said)"
  grep -q '"type":"final"' said || fail "no final line ($flags): $(cat said)"
  grep -q 'held-out loss' errors || fail "no last line for people ($flags): $(cat errors)"
done
grep -q 'people read goes to standard error' <<< "$("$train" --help | tr -s ' \n' ' ')" ||
  fail "--json - in --help: $("$train" --help)"

# --verbose: the values in force, those of flags and those that nobody gave as well.
"$train" "${tiny[@]}" --ranks 3 --accumulation 2 --stage 1 --steps 0 --verbose \
  > said 2> errors
for text in '"train_batch_size": 12' '"train_micro_batch_size_per_gpu": 2' \
  '"gradient_accumulation_steps": 2' '"stage": 1' '"reduce_bucket_size": 500000000' \
  '"reproducible": false' '"weight_decay": 0.1' '"overlap_comm": false'; do
  grep -qF "$text" errors || fail "--verbose: '$text' is missing: $(cat errors)"
done
