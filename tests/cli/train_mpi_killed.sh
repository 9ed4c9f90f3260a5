# kill -9 or SIGSTOP of one of four processes at a random moment of the training: the job ends by
# itself, within the deadline and five seconds, not with 0, and names the rank. Nothing is left of
# it, and it goes on from its checkpoint, with four ranks and with two, to the same bits.
# So does one whose processes are all killed while they save. SIGTERM to one of them ends all after
# the same step, with a checkpoint. A rank without memory or without a disk ends the job as well.
#
# KILLS=25 STOPS=25 ALL=25 train_mpi_killed.sh: so many. SEED=... is printed.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"
source "$(dirname "${BASH_SOURCE[0]}")/mpi_common.inc"

kills=${KILLS:-1} stops=${STOPS:-1} all=${ALL:-1}
seed=${SEED:-$RANDOM}
RANDOM=$seed
deadline_s=3
steps=${STEPS:-150}
# Four slots in reproducible mode. The path of the program is this test's own, so that its processes
# are told from others.
ln -s "$train" zero-train
run=("$work/zero-train" --data text.txt --layers 2 --width 16 --heads 2 --context 12 --quiet
  --stage 2 --set runtime.reproducible=true --set "runtime.timeout_s=$deadline_s")

now_ms() { date +%s%3N; }
ends() { grep -oE '"(val_loss_bits|weights_hash)":"[0-9a-f]{16}"' "$1"; }
pids() { pgrep -f "^$work/zero-train" || true; }
rank_of() { tr '\0' '\n' <"/proc/$1/environ" | grep -oP '^OMPI_COMM_WORLD_RANK=\K.*'; }
# Shared memory that the processes of the job have.
# shellcheck disable=SC2046  # several words
shared_files() {
  cat $(pids | sed 's|.*|/proc/&/maps|') </dev/null 2>/dev/null | { grep -oE '/dev/shm/[^ ]+' || true; } | sort -u
}

# Of the address space that one of them has had.
# shellcheck disable=SC2046  # several words
most_kib() {
  cat $(pids | sed 's|.*|/proc/&/status|') </dev/null 2>/dev/null | grep -oP '^VmPeak:\s*\K[0-9]+' | sort -n | tail -n 1
}

left_behind() {
  pids
  for file in $shared; do [[ ! -e $file ]] || echo "$file"; done
}

nothing_is_left() {  # WHAT
  # mpirun may be a little ahead of those whom it has ended.
  for ((i = 0; i < 50; ++i)); do
    if [[ -z $(left_behind) ]]; then return; fi
    sleep 0.1
  done
  fail "$1: left behind: $(left_behind)"
}

mpi 4 "${run[@]}" --accumulation 1 --json whole >said
start() {  # STEPS SAVE_EVERY
  rm -rf saved first
  mpi 4 "${run[@]}" --steps "$1" --accumulation 1 --json first --save-dir saved --save-every "$2" \
    --keep 2 >said 2>errors &
  job=$!
  for ((i = 0; i < 3000; ++i)); do
    if grep -q '"saved"' first 2>/dev/null; then break; fi
    sleep 0.01
  done
  sleep "$(printf '0.%03d' $((RANDOM % 500)))"
  shared=$(shared_files)
  most_kib=$(most_kib)
}

signal_rank() {  # SIGNAL RANK
  for pid in $(pids); do
    if [[ $(rank_of "$pid") == "$2" ]]; then kill -"$1" "$pid" || true; fi
  done
}

# Waits for the job's own end. Sets its exit code, and after how many milliseconds it came.
await() {  # WHAT
  local from
  from=$(now_ms) code=0
  for ((i = 0; i < 3000; ++i)); do
    kill -0 $job 2>/dev/null || break
    sleep 0.01
  done
  took=$(($(now_ms) - from))
  if kill -0 $job 2>/dev/null; then
    # shellcheck disable=SC2046  # several words
    kill -9 $(pids) $job
    fail "$1: still there after $took ms: $(cat errors)"
  fi
  wait $job || code=$?
}

goes_on() {  # WHAT RANKS: from what was saved, to the bits of the run that was never ended
  mpi "$2" "${run[@]}" --steps "$steps" --accumulation $((4 / $2)) --json second --resume saved \
    >said 2>errors || fail "$1: to go on with $2 ranks: $(cat errors)"
  diff <(ends second) <(ends whole) || fail "$1: other bits with $2 ranks"
}

mpi 4 "${run[@]}" --steps "$steps" --accumulation 1 --json whole >said

lose_one() {  # SIGNAL
  local victim=$((RANDOM % 4))
  start "$steps" 5
  signal_rank "$1" $victim
  await "SIG$1 of rank $victim"
  if [[ $code == 0 ]]; then return 1; fi  # it was done already
  ((took <= deadline_s * 1000 + 5000)) || fail "SIG$1 of rank $victim: ended after $took ms"
  grep -qE "process rank $victim with PID|(for|;) rank $victim, " errors ||
    fail "SIG$1: rank $victim is not named: $(cat errors)"
  nothing_is_left "SIG$1 of rank $victim"
  goes_on "SIG$1" 4
  goes_on "SIG$1" 2
}

lose_all() {
  start "$steps" 1
  # shellcheck disable=SC2046  # several words
  kill -9 $(pids) || true
  await "all killed"
  if [[ $code == 0 ]]; then return 1; fi
  local reported found
  reported=$(grep -oP '"type":"saved","step":\K[0-9]+' first | tail -n 1)
  goes_on "all killed" 2
  found=$(grep -oP '"type":"resumed".*"steps":\K[0-9]+' second)
  ((found >= reported)) || fail "all killed: step $reported was saved, and $found is found"
  nothing_is_left "all killed"
}

times() {  # COUNT WHAT...
  local want=$1 met=0 missed=0 slowest_ms=0
  shift
  while ((met < want && missed < 10 + want)); do
    if "$@"; then met=$((met + 1)); else missed=$((missed + 1)); fi
    ((took <= slowest_ms)) || slowest_ms=$took
  done
  ((met == want)) || fail "$*: only $met of $want jobs could be met in time"
  echo "$*: $met jobs ended within $slowest_ms ms; $missed had ended before"
}
times "$kills" lose_one KILL
times "$stops" lose_one STOP
times "$all" lose_all
echo "SEED=$seed"

start 1000000 3
signal_rank TERM 2
await "SIGTERM of rank 2"
((code == 143)) || fail "SIGTERM of rank 2: exit code $code: $(cat errors)"
step=$(grep -oP '"type":"final".*"steps":\K[0-9]+' first)
[[ $(cat saved/latest) == "$(printf 'step-%08d' "$step")" ]] ||
  fail "SIGTERM after step $step: $(ls saved; cat saved/latest)"
nothing_is_left "SIGTERM of rank 2"

# The last of four ranks goes wrong in another way: all end, and are told which it was, and at what.
# It also runs in a folder of its own: the one for checkpoints is not shared with it.
mkdir elsewhere
ln -s ../text.txt elsewhere
goes_wrong() {  # MOST_KIB TEXT FLAG...: memory that the rank may have, what is said, all flags
  local most_kib=$1 text=$2 code=0
  shift 2
  mpi 3 "${run[@]}" --steps "$steps" "$@" --save-dir shared : \
    -n 1 bash -c 'ulimit -v "$0"; cd elsewhere; exec "$@"' "$most_kib" \
    "${run[@]}" --steps "$steps" "$@" --save-dir shared >said 2>errors || code=$?
  ((code != 0)) || fail "$*: ended as if nothing had been"
  grep -qF -- "$text" errors || fail "$*: '$text' is not in $(cat errors)"
  nothing_is_left "$*"
}
goes_wrong unlimited 'saving a checkpoint: rank 3: cannot create shared/.tmp-step-' \
  --save-every 2
# Each needs some 300 MB for its batch, and the last one may have 100 more than the ranks before had
# in all. Sanitizers end a process instead of throwing.
if ! grep -q '^ZERO_SANITIZE:[A-Z]*=..*' "$ZERO_BIN_DIR/../CMakeCache.txt"; then
  goes_wrong $((most_kib + 100000)) 'rank 3: no memory for this run' \
    --set train_micro_batch_size_per_gpu=16384
fi
