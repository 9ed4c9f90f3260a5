#!/usr/bin/env bash
# Everything that can be said of this project on a machine with a GPU only: builds for its GPU, runs
# the tests that need one, compares the bits of host and GPU, and measures. A short table comes last.
#
# Usage: gpu_check.sh [--build DIR] [--seconds S] [--dry-run]
#   --build DIR   where to build; kept, so a second run builds little (default: build-gpu)
#   --seconds S   in all, building included; what does not fit fails (default: 410,
#                 and 4100 for a dry run, whose phases have ten times as long, too)
#   --dry-run     no GPU: the same steps with the emulation of CUDA, tiny sizes and a few of the
#                 tests, to try this script. Builds in a temporary folder unless --build is given
#
# Needs a GPU with its driver (nvidia-smi), a CUDA toolkit (nvcc; in CUDA_PATH, PATH or
# /usr/local/cuda), and what tools/install_packages.sh lists, which it installs where apt-get works.
# Where nothing can be installed, bring those libraries (on Debian also libbenchmark1debian and
# googletest) unpacked by dpkg -x into a folder, and set CMAKE_PREFIX_PATH to FOLDER/usr. NCCL, also
# that of a Python package, and compute-sanitizer are used where they are. One GPU is enough: thread
# ranks share the first one, and NCCL gets as many ranks as there are GPUs.
#
# Each phase has a time limit of its own and ends in a line PASS, FAIL or SKIP; a phase that fails
# ends none of the others. All output is in DIR/gpu_check.log as well, that of each phase in
# DIR/gpu_check/. Exit status: 0 if no phase failed, 1 if one did or the machine lacks something, 2
# for a wrong command line.
# shellcheck disable=SC2317  # functions that a shell of their own calls
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

build=
total_seconds=
dry_run=false
while (($# > 0)); do
  case $1 in
    --build | --seconds)
      if (($# < 2)) || [[ -z $2 ]]; then
        echo "gpu_check.sh: $1 needs a value" >&2
        exit 2
      fi
      if [[ $1 == --build ]]; then build=$2; else total_seconds=$2; fi
      shift 2
      ;;
    --dry-run)
      dry_run=true
      shift
      ;;
    --help)
      sed -n '2,/^# shellcheck/{/shellcheck d/d;s/^# \{0,1\}//p}' tools/gpu_check.sh
      exit 0
      ;;
    *)
      echo "gpu_check.sh: unknown argument $1; valid: --build DIR, --seconds S, --dry-run" >&2
      exit 2
      ;;
  esac
done
# A dry run may be on a small machine.
if $dry_run; then patience=10; else patience=1; fi
total_seconds=${total_seconds:-$((410 * patience))}
if ! [[ $total_seconds =~ ^[1-9][0-9]{0,5}$ ]]; then
  echo "gpu_check.sh: --seconds $total_seconds: must be a whole number of 1 to 999999" >&2
  exit 2
fi

PATH="${CUDA_PATH:+$CUDA_PATH/bin:}$PATH:/usr/local/cuda/bin"
export PATH
if ! $dry_run; then
  if ! command -v nvidia-smi >/dev/null; then
    echo "gpu_check.sh: no GPU here: there is no nvidia-smi in PATH. Try --dry-run" >&2
    exit 1
  fi
  if ! gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>&1) || [[ -z $gpus ]]; then
    echo "gpu_check.sh: no GPU here; nvidia-smi says: ${gpus:-nothing}. Try --dry-run" >&2
    exit 1
  fi
  if ! command -v nvcc >/dev/null; then
    echo "gpu_check.sh: no nvcc in CUDA_PATH, PATH or /usr/local/cuda/bin. Install a CUDA" \
         "toolkit, or set CUDA_PATH. Try --dry-run" >&2
    exit 1
  fi
fi
if $dry_run && [[ -z $build ]]; then
  build=$(mktemp -d) || exit 1
  trap 'rm -rf "$build"' EXIT
fi
build=${build:-build-gpu}
out=$build/gpu_check
rm -rf "$out"
mkdir -p "$out" || exit 1

cores=$(nproc)
# What the functions below that run in a shell of their own, with a time limit, look at.
export build dry_run cores
lines=()  # one for each phase
failed=0

note() {  # PASS|FAIL|SKIP NAME TEXT...
  local verdict=$1 name=$2
  shift 2
  lines+=("$(printf '%-4s  %-22s %s' "$verdict" "$name" "$*")")
  echo "${lines[-1]}"
  [[ $verdict != FAIL ]] || failed=1
}

# Runs a command within SECONDS, or what is left of all; its output goes to DIR/gpu_check/NAME.txt
# too. Returns 0 if it came through; else a FAIL line is written, or a SKIP line if the output
# holds $excuse.
attempt() {  # NAME SECONDS COMMAND...
  local name=$1 limit=$2 code left began=$SECONDS
  shift 2
  limit=$((limit * patience))
  left=$((total_seconds - SECONDS))
  ((limit <= left)) || limit=$left
  echo
  echo "== $name"
  if ((limit < 1)); then
    note FAIL "$name" "no time left of --seconds $total_seconds"
    return 1
  fi
  timeout --kill-after=5 "$limit" "$@" 2>&1 | tee "$out/$name.txt"
  code=${PIPESTATUS[0]}
  took=$((SECONDS - began))
  ((code == 0)) && return 0
  if [[ -n ${excuse:-} ]] && grep -qF "$excuse" "$out/$name.txt"; then
    note SKIP "$name" "$excuse"
  elif ((code == 124 || code == 137)); then
    note FAIL "$name" "not done after $limit s"
  else
    note FAIL "$name" "exit status $code after $took s"
  fi
  return 1
}

phase() {  # NAME SECONDS COMMAND...
  attempt "$@" && note PASS "$1" "$took s"
}

# A run of CTest that has to run something: a GPU that no test sees is a failure.
tests() {  # NAME SECONDS CTEST_ARGUMENTS...
  local name=$1 limit=$2 ran skipped
  shift 2
  attempt "$name" "$limit" ctest --test-dir "$build" --output-on-failure --timeout 120 "$@" ||
    return 1
  ran=$(sed -nE 's/.* tests failed out of ([0-9]+).*/\1/p' "$out/$name.txt")
  skipped=$(grep -cE '\*\*\*Skipped' "$out/$name.txt")
  if ((${ran:-0} == 0)); then
    note "$($dry_run && echo SKIP || echo FAIL)" "$name" "no such tests in this build"
  elif ((skipped == ran)); then
    note FAIL "$name" "all $ran tests skipped themselves"
  else
    note PASS "$name" "$((ran - skipped)) tests, $skipped skipped, $took s"
  fi
}

# A bench: that it skips itself is a failure, but for a part that may be missing.
bench() {  # NAME SECONDS REQUIRED|OPTIONAL COMMAND...
  local name=$1 limit=$2 kind=$3 why
  shift 3
  attempt "$name" "$limit" "$@" || return 1
  why=$(sed -n 's/.*skipped: //p' "$out/$name.txt" | head -n 1)
  if grep -q 'ERROR OCCURRED' "$out/$name.txt"; then  # as Google Benchmark has it
    note FAIL "$name" "$(grep -c 'ERROR OCCURRED' "$out/$name.txt") rows failed"
  elif [[ -z $why ]]; then
    note PASS "$name" "$took s"
  elif [[ $kind == OPTIONAL ]]; then
    note SKIP "$name" "$why"
  else
    note FAIL "$name" "$why"
  fi
}

versions() {
  echo "project: $(git describe --always --dirty 2>/dev/null || echo 'no git here')"
  echo "cores: $cores"
  if $dry_run; then
    echo "GPU: none, CUDA is emulated"
    return
  fi
  nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader |
    sed 's/^/GPU: /'
  echo "nvcc: $(nvcc --version | sed -n 's/.*release //p')"
  local header
  header=$(sed -n 's/^NCCL_INCLUDE_DIR:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null)/nccl.h
  if [[ -f $header ]]; then
    echo "NCCL: $(awk '/^#define NCCL_(MAJOR|MINOR|PATCH) /{printf "%s%s", dot, $3; dot = "."}' \
      "$header")"
  else
    echo "NCCL: not found"
  fi
}

configure() {
  local arguments=(-S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release)
  if $dry_run; then
    arguments+=(-DZERO_CUDA=EMULATE)
  else
    local capability
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
      sed -nE 's/^([0-9]+)\.([0-9]+)$/\1\2/p' | sort -u | paste -sd ';')
    arguments+=(-DZERO_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=${capability:-native}")
  fi
  echo "cmake ${arguments[*]}"
  cmake "${arguments[@]}" || return 1
  local nccl
  nccl=$(nccl_of_python)
  if [[ -n $nccl ]] && grep -qE '^NCCL_.*-NOTFOUND' "$build/CMakeCache.txt"; then
    arguments+=("-DNCCL_INCLUDE_DIR=$nccl/include" "-DNCCL_LIBRARY=$nccl/lib/libnccl.so.2")
    echo "cmake ${arguments[*]}"
    cmake "${arguments[@]}"
  fi
}

# The folder of the package nvidia-nccl-cu*, which has no libnccl.so that CMake would find.
nccl_of_python() {
  python3 -c 'import importlib.util, pathlib
for place in importlib.util.find_spec("nvidia.nccl").submodule_search_locations:
  if (pathlib.Path(place) / "lib/libnccl.so.2").exists(): print(place)' 2>/dev/null | head -n 1
}

configure_or_install() {
  configure && return 0
  echo "not configured; trying to install what is missing"
  timeout 60 bash tools/install_packages.sh && configure
}

# The programs of tests with the label gpu, by what CMake has written for CTest, and of those that
# look at a device by themselves.
targets() {
  echo bench_cuda bench_cuda_stages
  if $dry_run; then
    echo test_cuda_parity test_cuda_kernels readme_cuda
    return
  fi
  cmake --build "$build" --target help | sed -nE 's/^(test_(cuda|nccl)[a-z0-9_]*): .*/\1/p'
  grep -lE "TEST_PROPERTIES .*gpu" "$build"/tests/*_include.cmake 2>/dev/null |
    sed -E 's|.*/([a-z0-9_]+)\[[0-9]+\]_include\.cmake|\1|'
  awk -F '"' '/^add_test\(/ { program = $2; sub(/.*\//, "", program) }
    /^set_tests_properties\(.* LABELS "([^"]*;)?gpu[;"]/ { print program }' \
    "$build/tests/CTestTestfile.cmake"
}

build_targets() {
  local wanted
  mapfile -t wanted < <(targets | tr ' ' '\n' | sort -u)
  echo "building ${wanted[*]}"
  cmake --build "$build" -j "$cores" --target "${wanted[@]}"
}

# The kernels' own tests without the largest of them.
sanitize() {  # TOOL
  local arguments=(--tool "$1" --error-exitcode 9) test
  # Tests provoke errors of calls on purpose; what counts is what kernels do.
  [[ $1 != memcheck ]] || arguments+=(--report-api-errors no)
  for test in test_cuda_kernels test_cuda_update test_cuda_stats; do
    [[ -x $build/bin/$test ]] || continue
    compute-sanitizer "${arguments[@]}" "$build/bin/$test" \
      --gtest_filter='-*EveryBitPattern*:*EverySizeAndKind*' || return 1
  done
}

kernel_table() {
  awk -F, '
    !head && /"?name"?,/ {
      for (i = 1; i <= NF; i++) { gsub(/"/, "", $i); column[$i] = i }
      printf "%-48s %10s %10s %12s\n", "kernel", "us", "GB/s", "share of copy"
      head = 1
      next
    }
    head && NF > 1 {
      gsub(/"/, "", $1)
      sub(/\/iterations:.*/, "", $1)
      if ($(column["GB/s"]) == "") { print $1 "  FAILED"; next }
      share = $(column["share_of_copy"])
      printf "%-48s %10.1f %10.1f %12.3f%s\n", $1, $(column["us"]), $(column["GB/s"]), share,
             $1 ~ /^(update|sum)/ && share < 0.9 ? "  below 0.9" : ""
    }' "$out/kernels.csv"
}

summary() {
  echo
  echo "==== summary, after $SECONDS s"
  cat "$out/versions.txt" 2>/dev/null
  printf '%s\n' "${lines[@]}"
  if [[ -s $out/kernels.csv ]]; then
    echo
    kernel_table
  fi
  local table
  for table in threads nccl graph; do
    if [[ -s $out/$table.txt ]]; then
      echo
      cat "$out/$table.txt"
    fi
  done
}

main() {
  local parity='^(cuda\.)?test_cuda_parity\.' own='^test_(cuda|nccl)'
  local many=() kernel_elems=67108864 stages=() some=()
  many=(-j "$((cores < 8 ? cores : 8))")
  if $dry_run; then
    kernel_elems=1000
    stages=(--elems 5000 --units 5 --windows 2 --steps 3)
    own='^test_cuda_kernels\.' some=(-R '^readme_cuda$')
  fi
  export -f configure configure_or_install nccl_of_python targets build_targets sanitize
  attempt configure 120 bash -c configure_or_install || {
    echo "gpu_check.sh: not configured; what is missing is said above" >&2
    return 1
  }
  versions | tee "$out/versions.txt"
  phase build 260 bash -c build_targets || return 1

  tests parity 90 "${many[@]}" -R "$parity"
  bench kernels 60 REQUIRED "$build/bin/bench_cuda" --elems "$kernel_elems" \
    --benchmark_out="$out/kernels.csv" --benchmark_out_format=csv
  # Ranks that are threads share the first GPU.
  local visible=${CUDA_VISIBLE_DEVICES:-0}
  bench threads 90 REQUIRED env CUDA_VISIBLE_DEVICES="${visible%%,*}" \
    "$build/bin/bench_cuda_stages" --only threads "${stages[@]}"
  bench graph 45 "$($dry_run && echo OPTIONAL || echo REQUIRED)" \
    "$build/bin/bench_cuda_stages" --only graph "${stages[@]}"
  bench nccl 60 OPTIONAL "$build/bin/bench_cuda_stages" --only nccl "${stages[@]}"
  tests kernel_tests 60 "${many[@]}" -R "$own" -E "$parity"
  tests gpu_tests 150 "${many[@]}" -L gpu -E "$parity|$own" "${some[@]}"
  local tool excuse
  for tool in memcheck racecheck; do
    if command -v compute-sanitizer >/dev/null; then
      excuse='Device not supported'  # as under some virtual machines
      phase "$tool" 60 bash -c "sanitize $tool"
    else
      note SKIP "$tool" "no compute-sanitizer in PATH"
    fi
  done
  return 0
}

{
  main || failed=1
  summary
  if ((failed)); then echo "gpu_check.sh: FAILED"; else echo "gpu_check.sh: passed"; fi
  exit "$failed"
} 2>&1 | tee "$build/gpu_check.log"
exit "${PIPESTATUS[0]}"
