# No inline function compiled for AVX2 or AVX-512 may stand in for that of another file: libgpt.a
# defines weak symbols only in the namespaces that belong to one flavour of the kernels.
set -euo pipefail
library=$(find "$ZERO_BIN_DIR/.." -name libgpt.a | head -1)
[[ -n $library ]] || { echo "libgpt.a not found" >&2; exit 1; }
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
cd "$objects"
ar x "$library"
status=0
for object in *gpt_kernels*.o; do
  # Only strong references may be left: std:: and the sanitizers' own are not defined here.
  weak=$(nm -C --defined-only "$object" | grep -E ' [VWu] ' |
         grep -vE 'Eigen_(baseline|avx2|avx512)::|DW\.ref\.|__(asan|ubsan|tsan)|\.asan|asan\.' || true)
  if [[ -n $weak ]]; then
    echo "$object defines weak symbols that another file may end up calling:" >&2
    echo "$weak" >&2
    status=1
  fi
done
exit $status
