# zero-mem report: a run written by hand, equal to its plan and not.
source "$(dirname "${BASH_SOURCE[0]}")/mem_common.inc"

account() { printf '"%s":{"current":%s,"peak":%s}' "$1" "$2" "$3"; }
figures() {  # BUCKET_PEAK TOTAL_PEAK
  printf '%s,' "$(account params 2000 2000)" "$(account grads 500 500)" \
    "$(account master_weights 1000 1000)" "$(account exp_avg 1000 1000)" \
    "$(account exp_avg_sq 1000 1000)" "$(account bucket 0 "$1")" "$(account gather 0 700)" \
    "$(account workspace 64 64)"
  account total 5564 "$2"
}
{
  echo '{"type":"step","step":1,"loss":5.5}'
  echo "{\"type\":\"plan\",\"ranks\":2,$(figures 4096 9660)}"
  echo "{\"type\":\"memory\",\"rank\":0,$(figures 4096 9660)}"
  echo "{\"type\":\"memory\",\"rank\":1,$(figures 4096 9660)}"
  echo '{"type":"final","val_loss":5.5}'
} > equal.jsonl
sed "s/\"rank\":1.*/\"rank\":1,$(figures 8192 13756)}/" equal.jsonl > other.jsonl

"$mem" report equal.jsonl > said 2> errors || fail "equal: $(cat said errors)"
shows 'ranks 0 to 1' said
shows 'bucket +0 +0 +0 +4096 +4096 +0' said
shows 'planned = measured on 2 ranks' said
[[ ! -s errors ]] || fail "$(cat errors)"

refused 1 'DIFFERS: rank 1, bucket, peak: planned 4096 bytes, measured 8192: 4096 too many' \
  report other.jsonl
shows 'bucket +0 +0 +0 +4096 +8192 +\+4096' said
shows 'MEASURED DIFFERS FROM PLANNED' said
shows 'DIFFERS: rank 1, total, peak: planned 9660' errors
[[ $(wc -l < errors) == 2 ]] || fail "more differences: $(cat errors)"

refused 1 'DIFFERS: rank 1, bucket' report other.jsonl --json
holds 'not o["equal"] and len(o["differences"]) == 2' said
holds 'o["ranks"][1]["memory"]["bucket"]["difference"] == {"current": 0, "peak": 4096}' said
"$mem" report equal.jsonl --json > json
holds 'o["equal"] and o["differences"] == [] and len(o["ranks"]) == 2' json

refused 2 'no_such.jsonl: cannot be read' report no_such.jsonl
refused 2 'cannot be read' report .
: > empty.jsonl
refused 2 'empty.jsonl: the file is empty' report empty.jsonl
head -c 700 equal.jsonl > cut.jsonl
refused 2 'cut.jsonl:3: the line is cut off' report cut.jsonl
echo 'step 1 loss 5.5' > text.jsonl
refused 2 'text.jsonl:1: no JSON' report text.jsonl
grep -v plan equal.jsonl > old.jsonl
refused 2 'older zero-train' report old.jsonl
grep -v memory equal.jsonl > aborted.jsonl
refused 2 'the run did not end' report aborted.jsonl
cat equal.jsonl equal.jsonl > twice.jsonl
refused 2 'twice.jsonl:7: a second plan' report twice.jsonl
sed 's/"ranks":2,//' equal.jsonl > old.jsonl
refused 2 'old.jsonl:2: "ranks" is missing: written by an older zero-train' report old.jsonl
# Cut between lines.
head -n 3 equal.jsonl > cut.jsonl
refused 2 'cut.jsonl: the memory of rank 1 is missing, the plan is for 2 ranks' report cut.jsonl
head -n 4 equal.jsonl > cut.jsonl
refused 2 'cut.jsonl: no line of type "final": the run did not end' report cut.jsonl
refused 2 'RUN.jsonl' report

if command -v gnuplot > /dev/null; then
  cp equal.jsonl "it's odd.jsonl"
  "$mem" report "it's odd.jsonl" --plot report.svg > said
  for text in "planned" 'rank 1' 'it&apos;s odd|it&#39;s odd|it'"'"'s odd'; do shows "$text" report.svg; done
fi

# Names of files that are no UTF-8.
odd=$'caf\xe9'
cp equal.jsonl "$odd.jsonl"
echo '{"units": [{"name": "a", "params": [{"name": "w", "shape": [9], "dtype": "bf16"}]}]}' > "$odd.json"
"$mem" report "$odd.jsonl" --json > json 2> errors || fail "report --json: $(cat errors)"
"$mem" plan --model "$odd.json" --json > json 2> errors || fail "plan --json: $(cat errors)"
holds 'o["model"]["name"] == "caf\ufffd.json, bf16"' json
echo '{"optimizer": {"type": "AdamW"}, "train_batch_size": 8}' > "$odd.config"
refused 1 '' plan --model "$odd.json" --config "$odd.config" --ranks 1,3 --json
holds 'o["plans"][4]["refused"] != ""' said
if command -v gnuplot > /dev/null; then
  for command in "report $odd.jsonl" "plan --model $odd.json"; do
    # shellcheck disable=SC2086  # several words
    "$mem" $command --plot odd.svg > said
    python3 -c 'import xml.dom.minidom as m; m.parse("odd.svg")' || fail "$command: no XML"
    shows $'caf\xef\xbf\xbd\\.json' odd.svg
  done
fi

# A real run at every stage, and the model that it describes, planned here.
printf 'the cat sat on a mat. %.0s' {1..40} > text.txt
tiny=(--data text.txt --layers 1 --width 16 --heads 2 --context 8 --micro-batch 1 --dtype bf16)
"$ZERO_BIN_DIR/zero-train" "${tiny[@]}" --describe model.json
echo '{"optimizer": {"type": "AdamW"}, "bf16": {"enabled": true}, "gradient_clipping": 1.0}' > config.json
for stage in 0 1 2 3; do
  "$ZERO_BIN_DIR/zero-train" "${tiny[@]}" --config config.json --stage $stage --ranks 3 --steps 3 \
    --quiet --json run.jsonl > /dev/null
  "$mem" report run.jsonl > said || fail "stage $stage: $(cat said)"
  "$mem" report run.jsonl --json > report.json
  "$mem" plan --model model.json --config config.json --stage $stage --ranks 3 --json > plan.json
  python3 - <<'PYTHON' || fail "stage $stage: zero-mem plans otherwise than zero-train"
import json
run, plan = json.load(open("report.json")), json.load(open("plan.json"))
planned = {name: figures["planned"] for name, figures in run["ranks"][2]["memory"].items()}
assert planned == plan["plans"][0]["memory"], (planned, plan["plans"][0]["memory"])
PYTHON
done
