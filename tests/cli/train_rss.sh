# What the process holds is what the ledgers say: resident memory with 1, 2 and 4 ranks against the
# sum of their peaks, at a few hundred MB of training state.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"

# No pipe into grep -q: it ends first, and with pipefail the broken pipe counts.
if [[ $(ldd "$train") =~ lib(asan|tsan) ]]; then
  echo "skipped: sanitizers keep memory of their own"
  exit 0
fi

# Many narrow layers: 28 million parameters, and next to no activations.
model=(--data text.txt --layers 36 --width 256 --heads 4 --context 1 --micro-batch 4 --steps 2 --quiet)
for stage in 0 3; do
  for ranks in 1 2 4; do
    python3 - "$train" "${model[@]}" --ranks $ranks --stage $stage --json out <<'PY' || fail "stage $stage, $ranks ranks"
import json, resource, subprocess, sys

subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
resident = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
lines = [json.loads(line) for line in open("out")]
peaks = sum(line["total"]["peak"] for line in lines if line["type"] == "memory")
print(f"resident {resident / 1e6:.0f} MB, ledgers {peaks / 1e6:.0f} MB, {resident / peaks - 1:+.1%}")
sys.exit(0 if peaks > 400e6 and abs(resident - peaks) <= 0.05 * peaks else 1)
PY
  done
done
