# Ctrl-C and SIGTERM: the step is finished, the tables are printed, the exit code is 128 + signal.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"
unset 'tiny[-1]'

stop_with() {  # SIGNAL CODE
  "$train" "${tiny[@]}" --ranks 3 --steps 100000000 --json out.$1 > said.$1 2> errors.$1 &
  local pid=$! code=0
  for ((i = 0; i < 600; ++i)); do
    if [[ -s out.$1 ]]; then break; fi
    sleep 0.1
  done
  kill -"$1" $pid
  wait $pid || code=$?
  [[ $code == "$2" ]] || fail "SIG$1: exit code $code, expected $2: $(cat errors.$1)"
  grep -q '"type":"final".*"interrupted":true' out.$1 || fail "SIG$1: no final line"
  grep -q 'exp_avg_sq' said.$1 || fail "SIG$1: no memory table"
}

stop_with INT 130
stop_with TERM 143

# A signal while the held-out text is evaluated: exit code and final line say the same.
width=128
grep -q '^ZERO_SANITIZE:[A-Z]*=..*' "$ZERO_BIN_DIR/../CMakeCache.txt" && width=32  # as long
large=(--data text.txt --layers 4 --width $width --heads 2 --context 64 --micro-batch 1)
"$train" "${large[@]}" --ranks 1 --steps 1 --json late > said.late 2> errors.late &
pid=$! code=0
for ((i = 0; i < 6000; ++i)); do
  if [[ -s late ]]; then break; fi
  sleep 0.01
done
kill -INT $pid
wait $pid || code=$?
[[ $code == 130 ]] || fail "during evaluation: exit code $code: $(cat errors.late)"
grep -q '"type":"final".*"steps":1,"interrupted":true' late ||
  fail "during evaluation: $(tail -1 late)"
