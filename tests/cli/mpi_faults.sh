#!/usr/bin/env bash
# Whatever happens to a rank of a job of processes, the job ends: by itself, not with 0, and with a
# message that names the rank. Nothing is left behind: no process, no file of shared memory.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/mpi_common.inc"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ln -s "$ZERO_BIN_DIR/mpi_fault" fault
mkdir session shared
export TMPDIR=$work/session OMPI_MCA_btl_vader_backing_directory=$work/shared

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

left_behind() {
  pgrep -f "$work/fault" || true
  find session -mindepth 1 ! -type d -print
  find shared -type f -print
}

# RANKS WHAT RANK TEXT...: the rank does it, and each of the texts is told. With a deadline of
# ${deadline:-60} seconds.
ends() {
  local ranks=$1 what=$2 rank=$3 code=0
  shift 3
  timeout 60 bash -c 'source "$0"; mpi "$@"' "${BASH_SOURCE[0]%/*}/mpi_common.inc" "$ranks" \
    "$work/fault" "$what" "$rank" "${deadline:-60}" >out 2>&1 || code=$?
  ((code != 124)) || fail "$what: still there after 60 s: $(cat out)"
  ((code != 0)) || fail "$what: ended as if nothing had been: $(cat out)"
  ! grep -E 'Sanitizer|runtime error' out || fail "$what: $(cat out)"
  for text in "$@"; do grep -qF -- "$text" out || fail "$what: no '$text' in: $(cat out)"; done
  # mpirun may be a little ahead of those whom it has ended.
  for _ in $(seq 100); do [[ -z $(left_behind) ]] && return; sleep 0.1; done
  fail "$what: left behind: $(left_behind)"
}

source=${BASH_SOURCE[0]}
[[ $source == /* ]] || fail "to be run by its whole path, not as $source"

mpi 4 "$work/fault" nothing 0 60 >out 2>&1 || fail "nothing happened, and yet: $(cat out)"
[[ ! -s out ]] || fail "nothing happened, and something was said: $(cat out)"
[[ -z $(left_behind) ]] || fail "left behind: $(left_behind)"

last='whose last operation was #5 all_gather of bucket 4'
deadline=2 ends 4 stop 2 ' waited 2 s in #6 all_gather of bucket 5' "for rank 2, $last" 'does not answer' \
  'last operations of all ranks:' 'rank 2: no answer; last heard of in #5'
deadline=2 ends 2 sleep 1 "rank 0 waited 2 s in #6 all_gather of bucket 5" "for rank 1, $last" \
  'which is in no operation for'
ends 4 kill 3 'rank 3' 'signal 9'
ends 2 crash 1 'rank 1' 'signal 6'
ends 4 throw 2 'the tokenizer is gone' 'when: rank 2 left its world on an error'
ends 2 swallow 1 'rank 0 was in #6' 'when: rank 1 left its world on an error'
ends 2 exit0 0 'rank 0 has ended; its last operation was #5 all_gather of bucket 4' \
  'rank 1 waits in #6'
ends 2 exit3 1 'rank 1 has ended'
ends 2 abort 1 'rank 1 gave up: the disk is full' 'rank 0 was in'
ends 4 mismatch 2 'rank 0 is at #6 all_gather of bucket 5, 100000 x fp32' \
  'rank 2 is at #6 all_gather of something else, 1 x fp32'
[[ $(grep -c 'the ranks differ' out) -ge 4 ]] || fail "not told by all ranks: $(cat out)"
deadline=1 ends 2 absent 1 'rank 0 of 2: MPI_Init_thread was not done after 1 s'
deadline=2 ends 2 late_end 1 'rank 0 has ended, and rank 1 has not and does not answer'
ends 2 bad_end 1
# MPI itself does not return: in a collective, of which the other rank is told nothing, and beside.
deadline=2 ends 2 hang -1 'a call of MPI has not returned for 3' 'in #6 all_gather of bucket 5' \
  ', waiting for rank'
deadline=2 ends 2 hang_beside -1 'a call of MPI has not returned for 3' 'is in no operation'

# Anywhere, also while messages are under way.
for signal in STOP KILL; do
  (for _ in $(seq 200); do
     victim=$(pgrep -n -f "^$work/fault loop") && break
     sleep 0.1
   done
   sleep 1.$RANDOM
   left_behind >there
   kill -$signal "$victim") &
  deadline=3 ends 4 loop 0 'rank'
  wait
  # What is looked for afterwards was there before.
  for kind in '^[0-9]' '^session/' '^shared/'; do
    grep -q "$kind" there || fail "no $kind in what a running job has: $(cat there)"
  done
done

# Programs that begin and end MPI themselves.
ln -sf "$ZERO_BIN_DIR/mpi_own" fault
mpi 2 "$work/fault" ok >out 2>&1 || fail "own MPI: $(cat out)"
[[ $(sort out | tr '\n' '.') == "rank 0 is done.rank 1 is done." ]] || fail "own MPI: $(cat out)"
ends 2 stop 1 'rank 0 has ended, and rank 1 has not and does not answer'
ends 2 serialized 1 'MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...)'
ends 2 swallow 1 'rank 1 left its world on an error'
