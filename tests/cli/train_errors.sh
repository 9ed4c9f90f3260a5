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

# A variable of the shell that is not set.
for flag in --config --json --describe --save-dir --resume; do
  refused 2 "$flag is empty" "${tiny[@]}" --steps 1 $flag ""
  refused 2 "$flag" "${tiny[@]}" --steps 1 $flag=
done

refused 2 'must not be negative: -5' "${tiny[@]}" --seed -5

# No step at all: the loss of the first weights, which for bytes is about ln 256.
"$train" "${tiny[@]}" --steps 0 > said || fail "--steps 0"
grep -q 'held-out loss 5\.[45].* after 0 steps' said || fail "--steps 0 said: $(cat said)"

# A learning rate that blows up ends with the step named.
refused 1 'diverged' "${tiny[@]}" --set optimizer.params.lr=1e30 --steps 20

# So does one that only the held-out text shows: after the last step.
refused 1 'the held-out loss is' "${tiny[@]}" --set optimizer.params.lr=3e37 --steps 1
grep -q 'diverged' errors || fail "the held-out loss: $(cat errors)"

# Other names of a precision contradict as well.
refused 2 'contradicts --dtype fp32' "${tiny[@]}" --set bfloat16.enabled=true --dtype fp32

refused 2 '--seed' "${tiny[@]}" --seed 18446744073709551616
grep -qF '18446744073709551615' errors || fail "--seed: $(cat errors)"
refused 2 '--seed' "${tiny[@]}" --seed 99999999999999999999999
"$train" "${tiny[@]}" --seed 18446744073709551615 --steps 0 > said || fail "the largest seed"

# No room: what was asked is named. Sanitizers end the process instead of throwing.
if ! grep -q '^ZERO_SANITIZE:[A-Z]*=..*' "$ZERO_BIN_DIR/../CMakeCache.txt"; then
  (
    ulimit -v 8000000
    refused 1 'no memory' --data text.txt --layers 2 --width 16 --heads 2 --context 12 \
      --micro-batch 1073741824 --steps 1
    grep -qF -- '--micro-batch 1073741824' errors || fail "--micro-batch: $(cat errors)"
    refused 1 'no memory for this run: --layers 1073741824' --layers 1073741824 --describe -
  )
fi

# A description needs no memory for weights, nor for activations, whatever the size; --data and
# --json do not act then.
grep -q -- '--data and --json do not act then' <<< "$("$train" --help | tr -s ' \n' ' ')" ||
  fail "--describe in --help"
limit_kib=1000000  # the libraries of MPI and NCCL take a part of it
grep -q '^ZERO_SANITIZE:[A-Z]*=..*' "$ZERO_BIN_DIR/../CMakeCache.txt" && limit_kib=unlimited
(ulimit -v $limit_kib && "$train" --layers 96 --width 12288 --heads 96 --context 2048 \
  --micro-batch 1024 --data no_such.txt --json lines --describe vast.json > said) ||
  fail "--describe of 175e9 parameters in $limit_kib KiB"
grep -qF '"h95.fc_proj.bias"' vast.json || fail "--describe: the last block is missing"
[[ ! -e lines && ! -s said ]] || fail "--describe wrote more than the model"

# What cannot be written is no success.
if [[ -c /dev/full ]]; then
  for flags in "--steps 1" "--steps 1 --json -" "--describe -" "--help"; do
    code=0
    # shellcheck disable=SC2086  # several words
    "$train" "${tiny[@]}" $flags > /dev/full 2> errors || code=$?
    [[ $code == 1 ]] || fail "$flags: exit code $code for a full disk"
    grep -q 'could be written' errors || fail "$flags: a full disk is not told: $(cat errors)"
  done
fi
