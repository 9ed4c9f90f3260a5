# kill -9 at random moments of a run that saves after every step. Each time there is a whole
# checkpoint, no older than the last that was reported as saved; going on from it has the bits of a
# run that was never ended; and the next save leaves nothing of what was half done.
#
# KILLS=200 train_save_killed.sh: so many, half of them while saves are asynchronous. SEED=... is
# printed, and repeats the moments as far as the machine does.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"

kills=${KILLS:-8}
seed=${SEED:-$RANDOM}
RANDOM=$seed
run=("${tiny[@]}" --ranks 2 --stage 2)
steps=16

now_ms() { date +%s%3N; }
ends() { grep -oE '"(val_loss_bits|weights_hash)":"[0-9a-f]{16}"' "$1"; }

# How long a run that saves takes, and how it ends. Two steps more than those that are killed, so
# that there are saves after each.
"$train" "${run[@]}" --steps $((steps + 2)) --json whole >said
saving=(--save-dir saved --save-every 1 --keep 2)
start=$(now_ms)
"$train" "${run[@]}" "${saving[@]}" --steps $steps --json first >said
took=$(($(now_ms) - start))
rm -r saved

killed=0 empty=0 finished=0 newer=0 torn=0
look_after_kill() {  # FLAG
  local reported found=none
  reported=$(grep -oP '"type":"saved","step":\K[0-9]+' first 2>/dev/null | tail -n 1) || true
  if [[ -n $(find saved -maxdepth 1 -name '.tmp-*' -o -name '*-replaced' 2>/dev/null) ]]; then
    torn=$((torn + 1))
  fi
  local resume=(--resume saved)
  if [[ -z $(find saved -maxdepth 1 -name 'step-*' 2>/dev/null) ]]; then
    [[ -z $reported ]] || fail "step $reported was saved, and there is: $(ls -A saved)"
    empty=$((empty + 1))
    resume=()
  elif [[ -x $ZERO_BIN_DIR/zero-ckpt ]]; then
    "$ZERO_BIN_DIR/zero-ckpt" verify saved >verified 2>&1 || fail "zero-ckpt: $(cat verified)"
  fi
  "$train" "${run[@]}" "${saving[@]}" --steps $((steps + 2)) "${resume[@]}" $1 --json second \
    >said 2>errors || fail "to go on: $(cat errors; find saved)"
  if ((${#resume[@]})); then
    found=$(grep -oP '"type":"resumed".*"steps":\K[0-9]+' second)
    ((found >= ${reported:-0})) || fail "step $reported was saved, and $found is found"
    ((found == ${reported:-0})) || newer=$((newer + 1))
  fi
  diff <(ends second) <(ends whole) || fail "other bits after going on from step $found"
  [[ $(ls -A saved) == "latest
$(printf 'step-%08d\nstep-%08d' $((steps + 1)) $((steps + 2)))" ]] || fail "left: $(ls -A saved)"
  [[ -z $(find saved -name '.tmp-*') ]] || fail "left: $(find saved)"
}

for ((i = 0; killed < kills && i < 4 * kills; ++i)); do
  flag=
  if ((i % 2)); then flag=--save-async; fi
  rm -rf saved first
  # shellcheck disable=SC2086  # none or one word
  "$train" "${run[@]}" "${saving[@]}" --steps $steps $flag --json first >said 2>errors &
  pid=$!
  sleep "$(printf '%d.%03d' 0 $((RANDOM % (took < 990 ? took : 990) )))"
  kill -9 $pid 2>/dev/null || true
  code=0
  wait $pid 2>/dev/null || code=$?
  if [[ $code == 0 ]]; then
    finished=$((finished + 1))
    continue
  fi
  [[ $code == 137 ]] || fail "exit code $code: $(cat errors)"
  killed=$((killed + 1))
  look_after_kill "$flag"
done
((killed == kills)) || fail "only $killed of $kills runs could be killed in time"
echo "$killed killed (SEED=$seed, a run takes $took ms): $torn in the middle of a save, $newer just \
after one, $empty before the first; $finished had ended before"
