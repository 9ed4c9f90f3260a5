# tools/gpu_check.sh without a GPU: what it says where something is missing, and, with stand-ins for
# the programs that it calls, its verdicts.
# shellcheck disable=SC2016  # what is in single quotes is for the stand-ins
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

check=$ZERO_SOURCE_DIR/tools/gpu_check.sh
expect() {  # CODE TEXT ARGUMENTS...
  local expected=$1 text=$2 code=0
  shift 2
  PATH=$work/path:$PATH CUDA_PATH=$work/path bash "$check" "$@" > "$work/said" 2>&1 || code=$?
  [[ $code == "$expected" ]] || fail "gpu_check.sh $*: exit code $code: $(cat "$work/said")"
  grep -qE -- "$text" "$work/said" || fail "'$text' is missing in: $(cat "$work/said")"
}
stand_in() {  # PATH BODY
  mkdir -p "$(dirname "$1")"
  printf '#!/usr/bin/env bash\n%s\n' "$2" > "$1"
  chmod +x "$1"
}

expect 2 'unknown argument --nonsense; valid: ' --nonsense
expect 2 '--build needs a value' --build
expect 2 '--seconds needs a value' --seconds ''
for wrong in 0 -1 1.5 x; do
  expect 2 '--seconds .*: must be a whole number of 1 to 999999' --seconds "$wrong"
done
expect 0 '^Usage: gpu_check.sh ' --help
stand_in "$work/path/nvidia-smi" 'echo "No devices were found"; exit 6'
expect 1 'no GPU here; nvidia-smi says: No devices were found' --build "$work/build"
[[ ! -e $work/build ]] || fail "a build folder without a GPU"

bin=$work/build/bin
stand_in "$work/path/nvidia-smi" 'case $1 in *compute_cap*) echo 9.0 ;; *) echo "0, Some GPU" ;; esac'
export ZERO_TEST_BUILD=$work/build PYTHONPATH=$work/python
mkdir -p "$work/build/tests" "$work/python/nvidia/nccl/lib"
touch "$work/python/nvidia/nccl/lib/libnccl.so.2"
echo '      TEST_PROPERTIES [==[LABELS;unit\;gpu;TIMEOUT;120]==]' > \
  "$work/build/tests/test_parity[2]_include.cmake"
echo '      TEST_PROPERTIES [==[LABELS;unit;TIMEOUT;120]==]' > \
  "$work/build/tests/test_dtype[1]_include.cmake"
cat > "$work/build/tests/CTestTestfile.cmake" <<'END'
add_test([=[case.a]=] "/b/bin/zero-train" "a.json")
set_tests_properties([=[case.a]=] PROPERTIES  LABELS "case" TIMEOUT "30")
add_test([=[cuda.case.a]=] "/b/bin/zero-case" "--device" "cuda" "a.json")
set_tests_properties([=[cuda.case.a]=] PROPERTIES  LABELS "case;gpu" TIMEOUT "30")
END
stand_in "$work/path/nvcc" 'echo "Cuda compilation tools, release 13.0, V13.0.1"'
stand_in "$work/path/cmake" 'echo "NCCL_LIBRARY:FILEPATH=NCCL_LIBRARY-NOTFOUND" > \
  "$ZERO_TEST_BUILD/CMakeCache.txt"
[[ "$*" != *"--target help"* ]] || echo "test_cuda_kernels: phony"'
stand_in "$work/path/ctest" 'echo "100% tests passed, 0 tests failed out of 3"'
stand_in "$work/path/compute-sanitizer" 'echo "$@"'
stand_in "$bin/test_cuda_kernels" ''
stand_in "$bin/bench_cuda" 'for a; do case $a in --benchmark_out=*) out=${a#*=} ;; esac; done
printf "%s\n" noise "name,GB/s,share_of_copy,us" "\"sum<fp32>/iterations:21\",3000,0.95,12" \
  "\"update/iterations:21\",2000,0.5,13" > "$out"'
stand_in "$bin/bench_cuda_stages" 'echo "row of $2"'
expect 0 'gpu_check.sh: passed' --build "$work/build"
for line in 'cmake .*-DZERO_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90$' \
  'cmake .*=90 .*-DNCCL_LIBRARY=.*/python/nvidia/nccl/lib/libnccl.so.2$' 'GPU: 0, Some GPU' \
  'nvcc: 13.0, V13.0.1' '^building bench_cuda bench_cuda_stages test_cuda_kernels test_parity zero-case$' 'PASS  gpu_tests +3 tests, 0 skipped' \
  'racecheck --error-exitcode' 'PASS  memcheck' '^sum<fp32> +12.0 +3000.0 +0.950$' \
  '^update +13.0 +2000.0 +0.500  below 0.9$' '^row of graph'; do
  grep -qE -- "$line" "$work/said" || fail "'$line' is missing in: $(cat "$work/said")"
done
! grep -qE '^(FAIL|SKIP)' "$work/said" || fail "$(cat "$work/said")"
cmp "$work/said" "$work/build/gpu_check.log"

# One that fails, that skips itself, that does not end; the phases after it come all the same.
stand_in "$bin/bench_cuda_stages" 'case $2 in
  threads) echo "threads 1 0 FAILED: no memory"; exit 1 ;;
  graph) echo "bench_cuda_stages: skipped: no CUDA device here" ;;
  nccl) echo "bench_cuda_stages: nccl: skipped: built without NCCL" ;;
esac'
stand_in "$work/path/ctest" 'printf "%s\n" "1/2 Test #1: a ...***Skipped" "2/2 Test #2: b ***Skipped" \
  "100% tests passed, 0 tests failed out of 2"'
stand_in "$bin/bench_cuda" 'echo "sum ERROR OCCURRED: no memory"'
stand_in "$work/path/compute-sanitizer" 'exit 9'
expect 1 'gpu_check.sh: FAILED' --build "$work/build"
for line in 'FAIL  threads +exit status 1 ' 'FAIL  graph +no CUDA device' \
  'SKIP  nccl +built without NCCL' 'FAIL  parity +all 2 tests skipped' 'PASS  build ' \
  'FAIL  kernels +1 rows failed' 'FAIL  racecheck +exit status 1'; do
  grep -qE -- "^$line" "$work/said" || fail "'$line' is missing in: $(cat "$work/said")"
done
stand_in "$work/path/compute-sanitizer" 'echo "========= Error: Device not supported"; exit 9'
expect 1 '^SKIP  memcheck +Device not supported' --build "$work/build"
stand_in "$bin/bench_cuda" 'sleep 60'
expect 1 'FAIL  kernels +not done after [1-3] s' --build "$work/build" --seconds 3
grep -qE '^FAIL  memcheck +no time left of --seconds 3' "$work/said" || fail "$(cat "$work/said")"
