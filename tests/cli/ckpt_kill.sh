# All ranks killed (kill -9) at random moments while they save after every step: what is found is
# whole, no older than the last save that was done, and goes on to the same bits.
# ZERO_KILLS: how often (default 6).
source "$(dirname "${BASH_SOURCE[0]}")/ckpt_common.inc"
kills=${ZERO_KILLS:-6}

run=(--config config.json --ranks 2 --steps 40)
save=(--save-dir run --save-every 1 --keep 2)
"$train" "${tiny[@]}" "${run[@]}" --json whole.json > /dev/null

RANDOM=1
for ((kill = 0; kill < kills; ++kill)); do
  flavour=()
  if ((kill % 2 == 1)); then flavour=(--save-async); fi
  resume=()
  if compgen -G 'run/step-*' > /dev/null; then resume=(--resume run); fi
  : > killed.json
  "$train" "${tiny[@]}" "${run[@]}" "${save[@]}" "${flavour[@]}" "${resume[@]}" --json killed.json \
    > said 2> errors &
  pid=$!
  # From before the first step to after many.
  sleep "0.$((RANDOM % 5))$((RANDOM % 10))"
  kill -9 $pid 2> /dev/null || true
  wait $pid 2> /dev/null || true
  # With --save-async a line says that a save has begun; the one before it is done.
  mapfile -t saved < <(sed -n 's/.*"type":"saved","step":\([0-9]*\).*/\1/p' killed.json)
  ((kill % 2 == 0)) || unset 'saved[-1]' 2> /dev/null || true
  last=0
  if ((${#saved[@]} > 0)); then last=${saved[-1]}; fi
  if ! compgen -G 'run/step-*' > /dev/null; then
    ((last == 0)) || fail "saved $last, and nothing is there: $(ls -A run)"
    continue
  fi
  ends_with 0 verify run
  taken=$(sed -n 's/^a resume takes run\/step-0*\([0-9]*\).*/\1/p' said)
  ((taken >= last)) || fail "saved $last, found $taken: $(cat said)"
  if ((taken == 40)); then rm -r run; fi  # too late: anew
done

resume=()
if compgen -G 'run/step-*' > /dev/null; then resume=(--resume run); fi
"$train" "${tiny[@]}" "${run[@]}" "${save[@]}" "${resume[@]}" --json end.json > /dev/null 2>&1
[[ $(ls -A run) == $'latest\nstep-00000039\nstep-00000040' ]] || fail "left over: $(ls -A run)"
hash() { grep -o '"weights_hash":"[0-9a-f]*"' "$1"; }
[[ -n $(hash end.json) && $(hash end.json) == $(hash whole.json) ]] ||
  fail "other weights than without a kill: $(hash end.json) $(hash whole.json)"
