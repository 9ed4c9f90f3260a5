# A run that is stopped and goes on has the bits of one that was never stopped: after SIGTERM, at
# another world size and stage in reproducible mode, with saves beside the training. A run that
# holds anything else than its plan fails by itself.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"

losses() { grep -oE '"loss_bits":"[0-9a-f]{16}"' "$@"; }
ends() { grep -oE '"(val_loss_bits|weights_hash)":"[0-9a-f]{16}"' "$@"; }

# The steps of FIRST, then those of SECOND and its end, are the steps and the end of WHOLE.
continues() {  # FIRST SECOND WHOLE WHAT
  [[ $(losses -h "$2" | wc -l) -ge 1 ]] || fail "$4: $2 holds no steps"
  diff <(losses -h "$1" "$2") <(losses -h "$3") >differences ||
    fail "$4: other losses: $(cat differences)"
  diff <(ends "$2") <(ends "$3") >differences || fail "$4: other weights: $(cat differences)"
}

nothing_temporary() {  # FOLDER
  [[ -z $(find "$1" -name '.tmp-*') ]] || fail "left in $1: $(find "$1" -name '.tmp-*')"
}

# Stopped by SIGTERM: the step is finished, and saved though no save is due.
for flags in "" "--save-async"; do
  rm -rf saved first
  # shellcheck disable=SC2086  # none or one word
  "$train" "${tiny[@]}" --ranks 3 --dtype fp16 --set fp16.initial_scale_power=28 --json first \
    --steps 1000000 --save-dir saved --save-every 3 --keep 2 $flags >said 2>errors &
  pid=$! code=0
  for ((i = 0; i < 2000; ++i)); do
    if grep -q '"type":"saved","step":6' first 2>/dev/null; then break; fi
    sleep 0.01
  done
  kill -TERM $pid
  wait $pid || code=$?
  [[ $code == 143 ]] || fail "SIGTERM: exit code $code: $(cat errors)"
  step=$(grep -oP '"type":"final".*"steps":\K[0-9]+' first)
  newest=$(printf 'step-%08d' "$step")
  [[ $(cat saved/latest) == "$newest" && -e saved/$newest/manifest.json ]] ||
    fail "SIGTERM after step $step, and latest is $(cat saved/latest)"
  [[ $(tail -n 1 <(grep '"type":"saved"' first)) == *"\"step\":$step,"* ]] ||
    fail "the last save is not reported: $(grep saved first)"
  [[ $(find saved -name 'step-*' | wc -l) == 2 ]] || fail "--keep 2 keeps $(ls saved)"
  nothing_temporary saved
  grep -q '"skipped":true' first || fail "no overflow, which the loss scale is to have caused"

  whole=("${tiny[@]}" --ranks 3 --dtype fp16 --set fp16.initial_scale_power=28 --steps $((step + 3)))
  "$train" "${whole[@]}" --json whole >said 2>errors
  "$train" "${whole[@]}" --json second --resume saved >said 2>errors
  grep -q "\"type\":\"resumed\",\"folder\":\"saved/$newest\",\"steps\":$step}" second ||
    fail "resumed: $(grep resumed second)"
  continues first second whole "SIGTERM, $flags"

  # One that is done already changes nothing; the step is found by its own name, too.
  for from in saved "saved/$newest"; do
    "$train" "${tiny[@]}" --ranks 3 --dtype fp16 --set fp16.initial_scale_power=28 \
      --steps "$step" --json again --resume "$from" --save-dir saved --save-every 1 $flags >said 2>errors ||
      fail "resumed at its end: $(cat errors)"
    diff <(ends again) <(ends first) >/dev/null || fail "resumed at its end: $(cat again)"
  done
done

# Four slots at any world size and stage, in reproducible mode.
four=("${tiny[@]}" --set runtime.reproducible=true --dtype bf16
  --set zero_optimization.stage3_param_persistence_threshold=0)
"$train" "${four[@]}" --steps 6 --ranks 4 --accumulation 1 --stage 2 --json whole >said
for how in "4 1 2" "2 2 3" "1 4 0"; do
  read -r ranks accumulation stage <<<"$how"
  for flags in "" "--save-async"; do
    saves=saves.$ranks$flags
    # shellcheck disable=SC2086
    "$train" "${four[@]}" --ranks "$ranks" --accumulation "$accumulation" --stage "$stage" \
      --steps 3 --json first --save-dir "$saves" --save-every 2 $flags >said
    [[ $(ls "$saves") == $'latest\nstep-00000002\nstep-00000003' ]] || fail "saved: $(ls "$saves")"
    for there in "2 2 1" "4 1 3" "1 4 2"; do
      read -r ranks2 accumulation2 stage2 <<<"$there"
      "$train" "${four[@]}" --steps 6 --ranks "$ranks2" --accumulation "$accumulation2" \
        --stage "$stage2" --json second --resume "$saves" >said 2>notes
      continues first second whole "from $how to $there, $flags"
      [[ ! -s notes ]] || fail "from $how to $there: $(cat notes)"
    done
  done
done

# Wrong use: what is said, and that it is no success.
refused() {  # CODE TEXT FLAGS...
  local expected=$1 text=$2 code=0
  shift 2
  "$train" "$@" >said 2>errors || code=$?
  [[ $code == "$expected" ]] || fail "$*: exit code $code, expected $expected: $(cat errors)"
  grep -qF -- "$text" errors || fail "$*: '$text' is missing in: $(cat errors)"
}
refused 2 '--save-every requires --save-dir' "${tiny[@]}" --save-every 2
refused 2 '--keep requires --save-dir' "${tiny[@]}" --keep 2
refused 2 '--save-async requires --save-dir' "${tiny[@]}" --save-async
refused 2 '--keep' "${tiny[@]}" --save-dir d --keep -1
mkdir empty
refused 2 'no checkpoint in empty' "${tiny[@]}" --resume empty --ranks 2
refused 2 'nowhere' "${tiny[@]}" --resume nowhere
refused 2 'parameter wte is [256, 16] in it and [256, 32] in this run' --data text.txt --layers 2 \
  --width 32 --heads 2 --context 12 --quiet --dtype bf16 --resume saves.4
refused 2 'parameter h1.ln1.gain of it is not in this run' --data text.txt --layers 1 --width 16 \
  --heads 2 --context 12 --quiet --dtype bf16 --resume saves.4
refused 2 'is bf16 in it and fp32 in this run' "${tiny[@]}" --resume saves.4
! grep -qF LoadOptions errors || fail "advice that no flag can follow: $(cat errors)"
# Fewer steps than are done: nothing could be trained, and --steps may not mean what was thought.
refused 2 'is at step 3, --steps is 2: nothing to train' "${four[@]}" --steps 2 --ranks 4 \
  --accumulation 1 --resume saves.4 --save-dir fewer
[[ -z $(ls fewer) ]] || fail "refused, and saved: $(ls fewer)"
# 0 only evaluates.
"$train" "${four[@]}" --steps 0 --ranks 4 --accumulation 1 --resume saves.4 --json only >said 2>errors
"$train" "${four[@]}" --steps 3 --ranks 4 --accumulation 1 --json whole >said
diff <(ends only) <(ends whole) || fail "--steps 0 of a checkpoint: $(cat only)"
# As many: it is said, and what is asked to be saved is saved, if it is not there.
for flags in "" "--save-async"; do
  rm -rf equal
  for again in 1 2; do
    # shellcheck disable=SC2086
    "$train" "${four[@]}" --steps 3 --ranks 4 --accumulation 1 --resume saves.4 --save-dir equal \
      --json only $flags >said 2>errors || fail "all steps are done: $(cat errors)"
    grep -qF 'is at step 3, and --steps is 3: nothing is left to train' errors ||
      fail "all steps are done: $(cat errors)"
    diff <(ends only) <(ends whole) || fail "all steps are done: $(cat only)"
    [[ $(ls equal) == $'latest\nstep-00000003' ]] || fail "saved: $(ls equal)"
    [[ $(grep -c '"type":"saved","step":3' only) == $((2 - again)) ]] ||
      fail "saved $again: $(grep saved only)"
  done
  "$train" "${four[@]}" --steps 6 --ranks 2 --accumulation 2 --json second --resume equal >said 2>notes
  "$train" "${four[@]}" --steps 6 --ranks 4 --accumulation 1 --json all >said
  diff <(ends second) <(ends all) || fail "goes on otherwise from what was saved at the end"
done
# Other data is possible, and said.
"$train" "${four[@]}" --steps 6 --ranks 4 --accumulation 1 --seed 7 --resume saves.4 >said 2>notes
grep -q 'seed was 1 at the save and is 7' notes || fail "another seed: $(cat notes)"

# Where nothing can be saved, or a resume would not find it: before any training.
mv "saves.4/$(<saves.4/latest)" best
for where in "text.txt: text.txt is no folder" "text.txt/x: cannot create the folder" \
  "step-00000100: step-00000100 has the name of a checkpoint" "best: best is a checkpoint itself"; do
  rm -f never
  refused 2 "--save-dir: ${where#*: }" "${tiny[@]}" --steps 1 --json never --save-dir "${where%%: *}"
  ! grep -q '"type":"step"' never || fail "--save-dir $where: trained first"
done
