# kill -9 or SIGSTOP of one of four processes at a random moment of the training: the job ends by
# itself, within the deadline and five seconds, not with 0, and names the rank. Nothing is left of
# it, and it goes on from its checkpoint, with four ranks and with two, to the same bits.
# A rank without memory or without a disk ends the job as well.
#
# KILLS=25 STOPS=25 train_mpi_killed.sh: so many. SEED=... is printed.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"
source "$(dirname "${BASH_SOURCE[0]}")/mpi_common.inc"

kills=${KILLS:-1} stops=${STOPS:-1}
seed=${SEED:-$RANDOM}
RANDOM=$seed
deadline_s=3
steps=${STEPS:-150}
# Four slots in reproducible mode. The path of the program is this test's own, so that its processes
# are told from others.
ln -s "$train" zero-train
run=("$work/zero-train" --data text.txt --layers 2 --width 16 --heads 2 --context 12 --quiet
  --steps "$steps" --stage 2 --set runtime.reproducible=true --set "runtime.timeout_s=$deadline_s")

now_ms() { date +%s%3N; }
ends() { grep -oE '"(val_loss_bits|weights_hash)":"[0-9a-f]{16}"' "$1"; }
pids() { pgrep -f "^$work/zero-train" || true; }
rank_of() { tr '\0' '\n' <"/proc/$1/environ" | grep -oP '^OMPI_COMM_WORLD_RANK=\K.*'; }
# Shared memory that the processes of the job have.
shared_files() {
  cat $(pids | sed 's|.*|/proc/&/maps|') 2>/dev/null | grep -oE '/dev/shm/[^ ]+' | sort -u
}

# Of the address space that one of them has had.
most_kib() {
  cat $(pids | sed 's|.*|/proc/&/status|') | grep -oP '^VmPeak:\s*\K[0-9]+' | sort -n | tail -n 1
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
slowest_ms=0
lose_one() {  # SIGNAL RANK
  local signal=$1 victim=$2 code=0 from took
  rm -rf saved first
  # In the background a script's jobs have SIGINT ignored; that changes nothing here.
  mpi 4 "${run[@]}" --accumulation 1 --json first --save-dir saved --save-every 5 --keep 2 \
    >said 2>errors &
  local job=$!
  for ((i = 0; i < 3000; ++i)); do
    if grep -q '"saved"' first 2>/dev/null; then break; fi
    sleep 0.01
  done
  sleep "$(printf '0.%03d' $((RANDOM % 500)))"
  shared=$(shared_files)
  most_kib=$(most_kib)
  for pid in $(pids); do
    if [[ $(rank_of "$pid") == "$victim" ]]; then kill -"$signal" "$pid" || true; fi
  done
  from=$(now_ms)
  for ((i = 0; i < 3000; ++i)); do
    kill -0 $job 2>/dev/null || break
    sleep 0.01
  done
  took=$(($(now_ms) - from))
  if kill -0 $job 2>/dev/null; then
    kill -9 $(pids) $job
    fail "SIG$signal of rank $victim: still there after $took ms: $(cat errors)"
  fi
  wait $job || code=$?
  if [[ $code == 0 ]]; then return 1; fi  # it was done already
  ((took <= deadline_s * 1000 + 5000)) || fail "SIG$signal of rank $victim: ended after $took ms"
  ((took <= slowest_ms)) || slowest_ms=$took
  grep -qE "process rank $victim with PID|for rank $victim, " errors ||
    fail "SIG$signal: rank $victim is not named: $(cat errors)"
  nothing_is_left "SIG$signal of rank $victim"

  mpi 4 "${run[@]}" --accumulation 1 --json second --resume saved >said 2>errors ||
    fail "to go on: $(cat errors)"
  diff <(ends second) <(ends whole) || fail "SIG$signal: other bits with 4 ranks"
  mpi 2 "${run[@]}" --accumulation 2 --json second --resume saved >said 2>errors ||
    fail "to go on with 2 ranks: $(cat errors)"
  diff <(ends second) <(ends whole) || fail "SIG$signal: other bits with 2 ranks"
}

for signal in KILL STOP; do
  want=$kills done=0 finished=0
  slowest_ms=0
  if [[ $signal == STOP ]]; then want=$stops; fi
  while ((done < want && finished <= want)); do
    if lose_one $signal $((RANDOM % 4)); then done=$((done + 1)); else finished=$((finished + 1)); fi
  done
  ((done == want)) || fail "only $done of $want jobs could be met in time"
  echo "SIG$signal: $done jobs lost a rank and ended within $slowest_ms ms; $finished ended before"
done
echo "SEED=$seed"

# The last of four ranks goes wrong in another way: all end, and are told which it was, and at what.
goes_wrong() {  # MOST_KIB TEXT FLAG...: memory that the rank may have, what is said, all flags
  local most_kib=$1 text=$2 code=0
  shift 2
  mpi 3 "${run[@]}" "$@" --save-dir shared : -n 1 bash -c 'ulimit -v "$0"; exec "$@"' "$most_kib" \
    "${run[@]}" "$@" --save-dir elsewhere >said 2>errors || code=$?
  ((code != 0)) || fail "$*: ended as if nothing had been"
  grep -qF -- "$text" errors || fail "$*: '$text' is not in $(cat errors)"
  nothing_is_left "$*"
}
goes_wrong unlimited 'saving a checkpoint: rank 3: cannot create elsewhere/.tmp-step-' --save-every 2
# Each needs some 300 MB for its batch, and the last one may have 100 more than the ranks before had
# in all. Sanitizers end a process instead of throwing.
if ! grep -q '^ZERO_SANITIZE:[A-Z]*=..*' "$ZERO_BIN_DIR/../CMakeCache.txt"; then
  goes_wrong $((most_kib + 100000)) 'rank 3: no memory for this run' \
    --set train_micro_batch_size_per_gpu=16384
fi
