# zero-mem fit: the stage for a budget, its patch, and what is said when nothing fits.
source "$(dirname "${BASH_SOURCE[0]}")/mem_common.inc"

model=(--params 16384000 --dtype bf16 --ranks 8)  # 32 units of 512000: no padding at 8 ranks
# 16 P = 262.1 MB; 4 P + 12 P / 8 = 90.1 MB; 2 P + 14 P / 8 = 61.4 MB; 16 P / 8 = 32.8 MB.
for case in '300MB 0' '200MB 1' '80MB 2' '50MB 3'; do
  read -r budget stage <<< "$case"
  "$mem" fit "${model[@]}" --budget $budget > said || fail "$budget: $(cat said)"
  shows "^stage $stage fits: peak [0-9]+ bytes" said
  [[ $(grep -c 'does not fit' said) == "$stage" ]] || fail "reasons: $(cat said)"
  "$mem" fit "${model[@]}" --budget $budget --json > json
  holds "o['fits'] and o['stage'] == $stage and o['plan']['stage'] == $stage" json
  holds "o['patch']['zero_optimization']['stage'] == $stage" json
  holds "o['plan']['peak_bytes'] <= o['budget_bytes']" json
  # The patch in a file gives the same plan.
  python3 -c 'import json; o = json.load(open("json")); json.dump(
      {"optimizer": {"type": "AdamW"}, "gradient_clipping": 1.0} | o["patch"], open("patched", "w"))'
  "$mem" plan "${model[@]}" --config patched --stage $stage --json > again
  python3 -c 'import json; a, b = json.load(open("json")), json.load(open("again"))
assert a["plan"] == b["plans"][0], (a["plan"], b["plans"])' || fail "$budget: the patch plans otherwise"
done

# Activations are part of the budget.
"$mem" fit "${model[@]}" --budget 300MB --activations 100MB > said
shows '^stage 1 fits' said
shows '0\.100 GB of it for activations' said

code=0
"$mem" fit "${model[@]}" --budget 1MB > said || code=$?
[[ $code == 1 ]] || fail "nothing fits: exit code $code"
shows '^NOTHING FITS; the smallest is stage 3' said
[[ $(grep -c 'does not fit' said) == 4 ]] || fail "reasons: $(cat said)"
code=0
"$mem" fit "${model[@]}" --budget 1MB --json > json || code=$?
[[ $code == 1 ]] || fail "nothing fits, --json: exit code $code"
holds "not o['fits'] and len(o['reasons']) == 4" json

refused 2 '--budget' fit "${model[@]}"
refused 2 '--ranks' fit --params 5 --budget 1GB
refused 2 '--budget: "much"' fit "${model[@]}" --budget much
refused 2 'no model is given' fit --ranks 2 --budget 1GB
refused 2 '--stage' fit "${model[@]}" --budget 1GB --stage 1

if command -v gnuplot > /dev/null; then
  "$mem" fit "${model[@]}" --budget 80MB --plot fit.svg > said
  grep -q 'budget' fit.svg || fail "no budget in the picture"
fi
