# The benches refuse arguments that make no sense, by name, before anything is measured.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

refused() {  # TEXT BENCH ARGUMENTS...
  local text=$1 bench=$2 code=0
  shift 2
  timeout 20 "$ZERO_BIN_DIR/$bench" "$@" > said 2> errors || code=$?
  [[ $code == 2 ]] || fail "$bench $*: exit code $code, expected 2: $(cat errors)"
  grep -qF -- "$bench: $text" errors || fail "$bench $*: '$text' is missing in: $(cat errors)"
  [[ ! -s said ]] || fail "$bench $*: $(cat said)"
}

for bench in bench_ratios bench_collectives bench_step_overhead; do
  "$ZERO_BIN_DIR/$bench" --help > help || fail "$bench --help"
  grep -q "^Usage: $bench" help || fail "$bench --help says: $(cat help)"
  grep -q -- '--seconds S' help || fail "$bench --help says: $(cat help)"
  refused 'The following argument was not expected: --nonsense' $bench --nonsense
  refused '--seconds: 1 required S:' $bench --seconds
  for wrong in 0 -1 -0.0 abc 1x '' nan inf 1e9 0x1 +1 ' 1'; do
    refused "--seconds: Value $wrong " $bench --seconds "$wrong"
  done
done

refused '--elems: 1 required N:' bench_ratios --elems
for wrong in 0 1 1023 -5000 abc 1048576x 1.5 0x1000 010000 +4096 ' 4096' '' 99999999999999999999 4611686018427387904; do
  refused "--elems: Value $wrong " bench_ratios --elems "$wrong"
done
refused '--only: foo not in {adam,elementwise,slices,norm}' bench_ratios --only foo
refused 'quick was given a disallowed' bench_ratios --quick=0
refused 'quick was given a disallowed' bench_collectives --quick=1
refused '--only: 1 required NAME:' bench_ratios --only

for wrong in 0 -1 abc 99999999999999 9223372036854775808; do
  refused "--mib: Value $wrong " bench_collectives --mib "$wrong"
done
for wrong in 0 1 -2 abc 4097; do
  refused "--ranks: Value $wrong " bench_collectives --ranks "$wrong"
done

for wrong in 0 -4 abc 2147483648; do
  refused "--width: Value $wrong " bench_step_overhead --width "$wrong"
done
refused '--width 7: ' bench_step_overhead --width 7

timeout 60 "$ZERO_BIN_DIR/bench_ratios" --quick --elems 4096 --seconds 0.01 --only norm > said ||
  fail "bench_ratios: exit code $?"
grep -q 'Exact sum of squares' said || fail "--only norm: $(cat said)"
! grep -q 'Adam' said || fail "--only norm: $(cat said)"

for wrong in 0 -1 1.5 0x10 010 99999999999999; do
  refused "--elems: Value $wrong " bench_cuda --elems "$wrong"
done
refused 'The following argument was not expected: --nonsense' bench_cuda --nonsense
"$ZERO_BIN_DIR/bench_cuda" --help > help || fail "bench_cuda --help"
grep -q 'skipped' help || fail "bench_cuda --help says: $(cat help)"
timeout 60 "$ZERO_BIN_DIR/bench_cuda" --elems 1000 --benchmark_filter=grad > said || fail "bench_cuda: $?"
grep -qE 'skipped: .|share_of_copy' said || fail "bench_cuda says: $(cat said)"

for wrong in 0 -1 1.5 0x10 010 99999999999999; do
  refused "--elems: Value $wrong " bench_cuda_stages --elems "$wrong"
done
for wrong in 0 65 x; do
  refused "--steps: Value $wrong " bench_cuda_stages --steps "$wrong"
done
refused '--elems 3: fewer than --units 4' bench_cuda_stages --elems 3 --units 4
refused '--only: foo not in {' bench_cuda_stages --only foo
refused 'The following argument was not expected: --nonsense' bench_cuda_stages --nonsense
"$ZERO_BIN_DIR/bench_cuda_stages" --help > help || fail "bench_cuda_stages --help"
grep -q 'skipped' help || fail "bench_cuda_stages --help says: $(cat help)"
# Every part; one element more than units, so that some of the parameters are empty.
timeout 100 "$ZERO_BIN_DIR/bench_cuda_stages" --elems 5 --units 4 --windows 1 --steps 2 > said ||
  fail "bench_cuda_stages: $?: $(cat said)"
if grep -q '^bench_cuda_stages: skipped: .' said; then exit 0; fi
for rows in 'threads 12' 'nccl 4'; do
  [[ $(grep -cE "^${rows% *} +[1-4] +[0-3] +[0-9.]+ " said) == "${rows#* }" ]] ||
    fail "rows of ${rows% *}: $(cat said)"
done
[[ $(grep -cE '^graph +[0-3] +[0-9.]+ .* same$|graph: skipped: .' said) =~ ^[14]$ ]] ||
  fail "graph: $(cat said)"
