# Every refusal: exit code, and what the message must contain.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"

refused() {  # CODE TEXT FLAGS...
  local expected=$1 text=$2 code=0
  shift 2
  "$train" "$@" > said 2> errors || code=$?
  [[ $code == "$expected" ]] || fail "$*: exit code $code, expected $expected: $(cat errors)"
  grep -qF -- "$text" errors || fail "$*: '$text' is missing in: $(cat errors)"
}

"$train" --help > help || fail "--help"
grep -q '130 or 143' help || fail "exit codes are missing in --help"

refused 2 '--data'
refused 2 '--nonsense' "${tiny[@]}" --nonsense
refused 2 'no_such.txt' --data no_such.txt
refused 2 '--data .' --data .
: > empty.txt
refused 2 'empty.txt' --data empty.txt
echo 'too short' > short.txt
refused 2 '--context 12' --data short.txt --context 12
refused 2 '--ranks' "${tiny[@]}" --ranks 0
refused 2 '--stage' "${tiny[@]}" --stage 4
refused 2 '--dtype' "${tiny[@]}" --dtype fp8
refused 2 'heads' --data text.txt --width 10 --heads 3
refused 2 'no_such.json' "${tiny[@]}" --config no_such.json
refused 2 'zero_optimisation' "${tiny[@]}" --set zero_optimisation.stage=1
refused 2 'json.path=value' "${tiny[@]}" --set zero_optimization.stage
refused 2 '--json' "${tiny[@]}" --json no_such_folder/out
refused 2 '--verbose' "${tiny[@]}" --verbose

# The batch triple: all four numbers.
echo '{"train_batch_size": 10, "train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "AdamW"}}' > odd.json
refused 2 '10' --data text.txt --config odd.json --ranks 2

# Both precisions on, and the flag that settles it.
echo '{"fp16": {"enabled": true}, "optimizer": {"type": "AdamW"}, "gradient_clipping": 1.0}' > half.json
refused 2 'bf16' "${tiny[@]}" --config half.json --set bf16.enabled=true
"$train" "${tiny[@]}" --config half.json --dtype bf16 --steps 1 > said || fail "--dtype over the file"
"$train" "${tiny[@]}" --config half.json --dtype fp32 --steps 1 > said || fail "--dtype over the file"
refused 2 'contradicts --dtype bf16' "${tiny[@]}" --set fp16.enabled=true --dtype bf16
refused 2 'contradicts --dtype fp32' "${tiny[@]}" --set bf16.enabled=true --dtype fp32
"$train" "${tiny[@]}" --set fp16.enabled=true --dtype fp16 --steps 1 > said || fail "--dtype as --set"

refused 2 'must not be negative: -5' "${tiny[@]}" --seed -5

# No step at all: the loss of the first weights, which for bytes is about ln 256.
"$train" "${tiny[@]}" --steps 0 > said || fail "--steps 0"
grep -q 'held-out loss 5\.[45].* after 0 steps' said || fail "--steps 0 said: $(cat said)"

# A learning rate that blows up ends with the step named.
refused 1 'diverged' "${tiny[@]}" --set optimizer.params.lr=1e30 --steps 20
